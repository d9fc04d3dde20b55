package import FoundationEssentials
package import HTTPTypes
package import Latchkey
package import LatchkeyJOSE

/// Sends requests, and throws a facade's errors.
package struct ServerConnection<Code: OAuthErrorCode>: Sendable {
    package let transport: any HTTPTransport

    package init(transport: any HTTPTransport) {
        self.transport = transport
    }

    /// - Returns: The response, with any status.
    package func send(
        _ request: HTTPRequest, _ body: [UInt8] = []
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        do {
            let (response, bytes) = try await transport.send(request, body: body)
            return ServerResponse(
                status: response.status.code, fields: response.headerFields, body: Data(bytes),
                note: { transport.note($0) })
        } catch {
            throw LatchkeyError(.transport(error))
        }
    }

    /// Posts a JSON object.
    ///
    /// - Returns: The response, with any status.
    package func post(
        _ members: [String: String], to endpoint: Endpoint, authorization: String? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        try await post(
            members.mapValues { JSONValue.string($0) }, to: endpoint, authorization: authorization)
    }

    /// Posts a JSON object.
    ///
    /// - Returns: The response, with any status.
    package func post(
        _ members: [String: JSONValue], to endpoint: Endpoint, authorization: String? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        guard let body = try? JSONEncoder().encode(members) else { throw LatchkeyError(.malformed) }
        var request = endpoint.request(.post, [.contentType: "application/json"])
        request.headerFields[.authorization] = authorization
        return try await send(request, Array(body))
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
    private let note: @Sendable (String) -> Void

    init(
        status: Int, fields: HTTPFields, body: Data,
        note: @escaping @Sendable (String) -> Void = { _ in }
    ) {
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
            throw .unreadable(ReceivedJSON.reason(of: error))
        }
    }

    /// Reads the body as a token response, and notes the members that are skipped.
    package func tokens() -> TokenResponse {
        let tokens = TokenResponse(body)
        for text in tokens.notes { note(text) }
        return tokens
    }
}

extension TokenResponse {
    /// ``checked(requiresBearer:)`` with a facade's error.
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
