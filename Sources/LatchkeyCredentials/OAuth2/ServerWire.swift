internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey

/// One request, one answer, with the errors of a credential.
struct ServerWire: Sendable {
    let transport: any HTTPTransport
    let operation: String

    /// The body of a successful answer.
    ///
    /// - Throws: ``CredentialError`` for every answer outside of 200 to 299: an OAuth error if the body is one, else
    ///   the status speaks.
    ///
    /// - Returns: The body, and the server's clock where it told (RFC 9110 section 6.6.1).
    func answer(
        _ request: HTTPRequest, _ form: [(name: String, value: String)] = []
    ) async throws(CredentialError) -> (body: Data, date: Date?) {
        let response: HTTPResponse
        let bytes: [UInt8]
        do {
            (response, bytes) = try await transport.send(request, body: Array(FormEncoding.encode(form).utf8))
        } catch {
            throw .transport(operation, error)
        }
        guard response.status.kind == .successful else {
            let error = try? JSONDecoder().decode(OAuth2Error.self, from: Data(bytes))
            throw .refusal(operation, error, status: response.status.code)
        }
        return (Data(bytes), response.headerFields[.date].flatMap(HTTPDate.parse))
    }

    func json<T: Decodable>(_ type: T.Type, _ request: HTTPRequest) async throws(CredentialError) -> T {
        let (body, _) = try await answer(request)
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
    }
}
