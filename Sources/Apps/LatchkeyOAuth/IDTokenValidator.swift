package import FoundationEssentials
internal import Latchkey
package import LatchkeyJOSE

/// Validates ID tokens of one issuer for one client (OpenID Connect Core section 3.1.3.7). It
/// accepts the algorithms of ``SignatureAlgorithm``.
package struct IDTokenValidator: Sendable {
    /// The accepted difference between the clocks of server and device, in seconds.
    package static let leeway: TimeInterval = 60

    package let issuer: String
    package let clientID: String

    package init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }

    /// The values that a token must match. A nil value is not checked.
    package struct Expectations: Sendable {
        /// The nonce of the authorization request.
        package var nonce: String?
        /// The access token for `at_hash`.
        package var accessToken: String?
        /// The authorization code for `c_hash`.
        package var code: String?
        /// The device secret for `ds_hash`.
        package var deviceSecret: String?
        /// The maximum time since the login (`auth_time`), in seconds.
        package var maximumLoginAge: TimeInterval?
        /// The maximum difference between `iat` and this machine's clock in both directions, in
        /// seconds. If it is nil, a token may be of any age, and `iat` must be less than
        /// ``IDTokenValidator/leeway`` in the future.
        package var maximumIssueDifference: TimeInterval?

        package init(
            nonce: String? = nil, accessToken: String? = nil, code: String? = nil,
            deviceSecret: String? = nil,
            maximumLoginAge: TimeInterval? = nil, maximumIssueDifference: TimeInterval? = nil
        ) {
            self.nonce = nonce
            self.accessToken = accessToken
            self.code = code
            self.deviceSecret = deviceSecret
            self.maximumLoginAge = maximumLoginAge
            self.maximumIssueDifference = maximumIssueDifference
        }
    }

    /// Validates signature and claims.
    ///
    /// - Parameters:
    ///   - keys: The server's keys.
    ///   - serverDate: The server's clock, if known. It distinguishes a wrong clock from an invalid
    ///     token.
    package func validate(
        _ compact: String, keys: JWKS, _ expected: Expectations = Expectations(), now: Date,
        serverDate: Date? = nil
    ) throws(IDTokenFlaw) -> IDToken {
        try checkSignature(compact, keys)
        return try checkClaims(compact, expected, now: now, serverDate: serverDate)
    }

    /// Validates the claims only. TLS replaces the signature for a token that comes directly from
    /// the token endpoint (OpenID Connect Core section 3.1.3.7 item 6).
    @discardableResult
    package func checkClaims(
        _ compact: String, _ expected: Expectations = Expectations(), now: Date,
        serverDate: Date? = nil
    ) throws(IDTokenFlaw) -> IDToken {
        let jws = try Self.read(compact)
        let token = try IDToken(jws)
        guard token.iss == issuer else { throw .issuer(token.iss, expected: issuer) }
        guard isAudience(token.aud, authorizedParty: token.azp) else { throw .audience }
        try checkTimes(
            of: token, maximumDifference: expected.maximumIssueDifference,
            now: now.timeIntervalSince1970, serverDate: serverDate)
        if let nonce = expected.nonce {
            guard let returned = token.nonce, constantTimeEqual(returned.utf8, nonce.utf8) else {
                throw .nonce
            }
        }
        try checkHash(token.atHash, "at_hash", of: expected.accessToken, in: jws)
        try checkHash(token.cHash, "c_hash", of: expected.code, in: jws)
        try checkHash(token.dsHash, "ds_hash", of: expected.deviceSecret, in: jws)
        if let maximumAge = expected.maximumLoginAge {
            guard let login = token.authTime,
                now.timeIntervalSince1970 - login <= maximumAge + Self.leeway
            else {
                throw .login
            }
        }
        return token
    }

    /// Validates the signature only.
    package func checkSignature(_ compact: String, _ keys: JWKS) throws(IDTokenFlaw) {
        let jws = try Self.read(compact)
        do throws(JWSFlaw) { try jws.verify(with: keys) } catch { throw IDTokenFlaw(error) }
    }

    private static func read(_ compact: String) throws(IDTokenFlaw) -> ReceivedJWS {
        do throws(JWSFlaw) { return try ReceivedJWS(compact) } catch { throw IDTokenFlaw(error) }
    }

    /// Checks that the user logged in for this token after the login began, and not in an earlier
    /// session of the browser (`auth_time`). Both compared times are the server's, so this
    /// machine's clock may be wrong.
    ///
    /// - Parameters:
    ///   - begun: When the login began, by this machine's clock.
    ///   - maximumAge: How long before that the user may have logged in, in seconds.
    /// - Returns: When the user logged in, by this machine's clock.
    @discardableResult
    package func checkLogin(
        _ token: IDToken, since begun: Date, maximumAge: TimeInterval = 0, now: Date
    ) throws(IDTokenFlaw) -> Date {
        guard let authTime = token.authTime else { throw .login }
        let age = max(0, token.iat - authTime)
        let limit = maximumAge + max(0, now.timeIntervalSince(begun)) + Self.leeway
        guard age <= limit else { throw .login }
        return now.addingTimeInterval(-age)
    }

    /// Whether a token is for this client only (items 3 to 5): in addition to the client, only the
    /// issuer may be in the audience, and a token with several audiences must name the client as
    /// its authorized party.
    func isAudience(_ audience: [String], authorizedParty: String?) -> Bool {
        guard audience.contains(clientID), audience.allSatisfy({ $0 == clientID || $0 == issuer })
        else { return false }
        guard let authorizedParty else { return audience.count == 1 }
        return authorizedParty == clientID
    }

    private func checkTimes(
        of token: IDToken, maximumDifference: TimeInterval?, now: Double, serverDate: Date?
    ) throws(IDTokenFlaw) {
        let isEarly =
            maximumDifference.map { token.iat > now + $0 } ?? (token.iat >= now + Self.leeway)
        let flaw: IDTokenFlaw? =
            if token.exp <= now - Self.leeway {
                serverDate == nil ? .expiredOrWrongClock : .expired
            } else if isEarly || token.nbf ?? 0 >= now + Self.leeway {
                .notYetValid
            } else if let maximumDifference, token.iat < now - maximumDifference {
                .tooOld
            } else {
                nil
            }
        guard let flaw else { return }
        if let ahead = serverDate.map({ now - $0.timeIntervalSince1970 }), abs(ahead) > Self.leeway
        {
            throw .clock(secondsAhead: ahead)
        }
        throw flaw
    }

    /// Compares with the left half of the digest (OpenID Connect Core section 3.3.2.11). A token
    /// without the hash is accepted.
    private func checkHash(
        _ hash: String?, _ claim: String, of value: String?, in jws: ReceivedJWS
    ) throws(IDTokenFlaw) {
        guard let value, let hash else { return }
        let algorithm: SignatureAlgorithm
        do throws(JWSFlaw) { algorithm = try jws.algorithm } catch { throw IDTokenFlaw(error) }
        let digest = algorithm.digest(Data(value.utf8))
        let expected = Base64URL.encode(digest.prefix(digest.count / 2))
        guard constantTimeEqual(hash.utf8, expected.utf8) else { throw .hash(claim) }
    }
}
