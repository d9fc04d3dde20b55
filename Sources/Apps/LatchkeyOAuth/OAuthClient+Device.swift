package import Latchkey
internal import LatchkeyJOSE

/// Logins with a browser on any device (RFC 8628).
extension OAuthClient {
    /// The number of requests in a row without an answer of the server after which the login fails.
    private static var failureLimit: Int { 5 }

    /// Requests the codes of a login (section 3.1). The page to which the user takes the code is of
    /// the server too: a malicious server could name another server's page, with a code from there.
    package func authorizeDevice(scope: String) async throws(LatchkeyError<Code>)
        -> DeviceAuthorization
    {
        try checkDeviceEndpoints()
        let response = try await post([("scope", scope)], to: .deviceAuthorization).successful()
        let members = try response.json([String: JSONValue].self)
        let authorization: DeviceAuthorization
        do { authorization = try DeviceAuthorization(members) } catch {
            throw response.unreadable("‘\(error.name)’ is missing or has an invalid value")
        }
        try checkOrigin(
            of: [authorization.page] + (authorization.pageWithCode.map { [$0] } ?? []))
        return authorization
    }

    /// Checks that the server offers such logins, and that the endpoint that redeems the codes is its
    /// own.
    ///
    /// A malicious server can name an honest server's endpoint for codes and its own token endpoint,
    /// and so get the honest server's tokens. No response names the issuer, unlike in RFC 9207.
    package func checkDeviceEndpoints() throws(LatchkeyError<Code>) {
        try checkOrigin(of: [endpoint(.deviceAuthorization), endpoint(.token)])
    }

    private func checkOrigin(of endpoints: [Endpoint]) throws(LatchkeyError<Code>) {
        do throws(MetadataFlaw) {
            try metadata.check(deviceCodesGoTo: endpoints, additionalOrigins: additionalOrigins)
        } catch {
            throw LatchkeyError(.metadata(error))
        }
    }

    /// Waits until the user has logged in, and redeems the code (sections 3.4 and 3.5).
    ///
    /// - Throws: For a login that was declined or not finished in time, a refusal, or a cancelled
    ///   task.
    package func redeem(
        _ authorization: DeviceAuthorization, _ more: Form = [],
        clock: some Clock<Duration> = ContinuousClock()
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        let form: Form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", authorization.deviceCode),
        ]
        let end = clock.now.advanced(by: authorization.lifetime)
        var (interval, failures) = (authorization.interval, 0)
        while clock.now.advanced(by: interval) < end {
            do {
                try await clock.sleep(for: interval)
            } catch {
                throw LatchkeyError(.authorization(.cancelled))
            }
            let response: ServerResponse<Code>
            do throws(LatchkeyError<Code>) {
                response = try await post(form + more, to: .token)
                // The answer of a proxy or of a server that is busy says nothing about the login.
                let refusal = response.refusal
                guard !refusal.isServerFailure, !refusal.isRateLimit else {
                    throw LatchkeyError(.refused(refusal))
                }
                failures = 0
            } catch {
                failures += 1
                let isTransient =
                    error.commonCode == .unavailable || error.details?.isServerFailure == true
                    || error.details?.isRateLimit == true
                guard isTransient, failures < Self.failureLimit else { throw error }
                interval = interval * 2
                continue
            }
            if response.isSuccess, !TokenResponse(response.body).hasError { return response }
            let refusal = response.refusal
            switch refusal.oauthError?.error {
            case "authorization_pending": continue
            case "slow_down": interval += .seconds(5)
            // Microsoft's name for it.
            case "access_denied", "authorization_declined":
                throw LatchkeyError(.authorization(.declined))
            case "expired_token": throw LatchkeyError(.authorization(.timedOut))
            default: throw LatchkeyError(.refused(refusal))
            }
        }
        throw LatchkeyError(.authorization(.timedOut))
    }
}
