package import FoundationEssentials
package import HTTPTypes
package import Latchkey
package import LatchkeyJOSE

/// Sends requests, and throws a facade's errors.
package struct ServerConnection<Code: OAuthErrorCode>: Sendable {
    package let transport: any HTTPTransport
    /// Proves the key to which tokens are bound; nil for a client whose tokens are not bound.
    package let prover: DPoPProver?

    package init(transport: any HTTPTransport, prover: DPoPProver? = nil) {
        self.transport = transport
        self.prover = prover
    }

    /// Sends a request, with a proof of the key if the request needs one. If the server requires its
    /// nonce in the proof, sends the request again with it, once (RFC 9449 section 8).
    ///
    /// - Parameter needsProof: Whether the request needs a proof also if its token is not bound; by
    ///   default, if it has one.
    /// - Returns: The response, with any status.
    package func send(
        _ request: HTTPRequest, _ body: [UInt8] = [], needsProof: Bool? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        let authorization = request.headerFields[.authorization]
        let hasBoundToken = authorization.flatMap(DPoPProver.token) != nil
        guard let prover else {
            guard !hasBoundToken else { throw LatchkeyError(.proof(.lostKey(nil))) }
            return try await exchange(request, body).withAcceptedProof(of: nil)
        }
        guard hasBoundToken || needsProof ?? (authorization != nil) else {
            return try await exchange(request, body)
        }
        let (first, used) = try await exchange(request, body, with: prover, nonce: nil)
        guard first.requiresNonce,
            let nonce = prover.keepNonce(of: first.fields, to: request), nonce != used
        else { return try first.withAcceptedProof(of: prover) }
        return try await exchange(request, body, with: prover, nonce: nonce).0
            .withAcceptedProof(of: prover)
    }

    private func exchange(
        _ request: HTTPRequest, _ body: [UInt8], with prover: DPoPProver, nonce: String?
    ) async throws(LatchkeyError<Code>) -> (ServerResponse<Code>, nonce: String?) {
        var request = request
        let used: String?
        do throws(CommonError) {
            used = try await prover.addProof(to: &request, nonce: nonce)
        } catch {
            throw LatchkeyError(.proof(DPoPFailure(error)))
        }
        let response = try await exchange(request, body)
        prover.keepNonce(of: response.fields, to: request)
        return (response, used)
    }

    private func exchange(
        _ request: HTTPRequest, _ body: [UInt8]
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        do {
            let (response, bytes) = try await transport.send(request, body: body)
            return ServerResponse(
                status: response.status.code, fields: response.headerFields, body: Data(bytes),
                path: request.path, note: { transport.note($0) })
        } catch {
            throw LatchkeyError(.transport(error))
        }
    }

    /// Posts a JSON object.
    ///
    /// - Returns: The response, with any status.
    package func post(
        _ members: [String: String], to endpoint: Endpoint, authorization: String? = nil,
        needsProof: Bool? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        try await post(
            members.mapValues { JSONValue.string($0) }, to: endpoint, authorization: authorization,
            needsProof: needsProof)
    }

    /// Posts a JSON object.
    ///
    /// - Returns: The response, with any status.
    package func post(
        _ members: [String: JSONValue], to endpoint: Endpoint, authorization: String? = nil,
        needsProof: Bool? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        guard let body = try? JSONEncoder().encode(members) else { throw LatchkeyError(.malformed) }
        var request = endpoint.request(.post, [.contentType: "application/json"])
        request.headerFields[.authorization] = authorization
        return try await send(request, Array(body), needsProof: needsProof)
    }

    package func json<T: Decodable>(_ type: T.Type, _ request: HTTPRequest)
        async throws(LatchkeyError<Code>) -> T
    {
        try await send(request).successful().json(type)
    }
}

/// An HTTP response of a server.
package struct ServerResponse<Code: OAuthErrorCode>: Sendable {
    package let status: Int
    let fields: HTTPFields
    package let body: Data
    /// The path of the request, without its query.
    private let path: String?
    private let note: @Sendable (String) -> Void

    init(
        status: Int, fields: HTTPFields, body: Data, path: String? = nil,
        note: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.path = path?.split(separator: "?").first.map(String.init)
        self.status = status
        self.fields = fields
        self.body = body
        self.note = note
    }

    package var isSuccess: Bool { (200..<300).contains(status) }

    /// The server's clock in whole seconds, from the field `Date` (RFC 9110 section 6.6.1).
    package var date: Date? { fields[.date].flatMap(HTTPDate.parse) }

    /// The error of an unsuccessful response.
    package var refusal: ServerRefusal {
        ServerRefusal(status: status, body: body, retryAfter: retryAfter)
    }

    /// The seconds until the next request, from the field `Retry-After` (RFC 9110 section 10.2.3):
    /// from one second to a year. nil for any other value.
    private var retryAfter: Int? {
        guard let text = fields[.retryAfter] else { return nil }
        let seconds =
            text.allSatisfy { ("0"..."9").contains($0) }
            ? Int(text)
            : HTTPDate.parse(text).map { Int($0.timeIntervalSince(date ?? Date()).rounded(.up)) }
        return seconds.flatMap { (1...31_536_000).contains($0) ? $0 : nil }
    }

    /// Whether the server refused the proof of a key: in the body of a token endpoint's response, or
    /// in the challenge of a resource (RFC 9449 sections 5 and 7.1).
    var refusesProof: Bool { hasError("invalid_dpop_proof") || requiresNonce }

    /// Whether the server requires its nonce in the proof (section 8).
    var requiresNonce: Bool { hasError("use_dpop_nonce") }

    private func hasError(_ code: String) -> Bool {
        guard status == 400 || status == 401 else { return false }
        let challenges = fields[values: .wwwAuthenticate].map { $0.lowercased() }
        return refusal.oauthError?.error == code
            || challenges.contains { $0.hasPrefix("dpop ") && $0.contains("error=\"\(code)\"") }
    }

    /// - Throws: ``OAuthFailure/proof(_:)`` if the server refused the proof.
    func withAcceptedProof(of prover: DPoPProver?) throws(LatchkeyError<Code>) -> Self {
        if let failure = DPoPFailure(self, of: prover) {
            throw LatchkeyError(.proof(failure))
        }
        return self
    }

    /// - Throws: ``OAuthFailure/refused(_:)`` for a status outside 200...299.
    package func successful() throws(LatchkeyError<Code>) -> Self {
        guard isSuccess else { throw LatchkeyError(.refused(refusal)) }
        return self
    }

    /// Decodes the body as JSON without repeated names, with any content type.
    package func json<T: Decodable>(_ type: T.Type) throws(LatchkeyError<Code>) -> T {
        do {
            return try ReceivedJSON.decode(type, from: body)
        } catch {
            if case DecodingError.dataCorrupted(let context) = error,
                context.underlyingError is NoEndpoint,
                let name = context.codingPath.last?.stringValue
            {
                throw unreadable(
                    "‘\(name)’ is not a complete https address (or http on this machine)")
            }
            throw unreadable(ReceivedJSON.reason(of: error))
        }
    }

    /// The error for a response that is not the expected JSON.
    ///
    /// - Parameter cause: A clause that names the member.
    func unreadable(_ cause: String) -> LatchkeyError<Code> {
        .unreadable(cause, from: path)
    }

    /// Reads the body as a token response, and notes the members that are skipped.
    package func tokens() -> TokenResponse {
        let tokens = TokenResponse(body)
        for text in tokens.notes { note(text) }
        return tokens
    }
}

extension TokenResponse {
    /// ``checked(requiresKnownType:)`` with a facade's error.
    package func checked<Code>(
        for code: Code.Type
    ) throws(LatchkeyError<Code>) -> Self where Code: OAuthErrorCode {
        do throws(TokenResponseFlaw) { return try checked() } catch {
            throw LatchkeyError(.tokens(error))
        }
    }

    /// ``required(_:)`` with a facade's error.
    package func required<Code>(
        _ name: Name, for code: Code.Type
    ) throws(LatchkeyError<Code>) -> String where Code: OAuthErrorCode {
        do throws(TokenResponseFlaw) { return try required(name) } catch {
            throw LatchkeyError(.tokens(error))
        }
    }
}
