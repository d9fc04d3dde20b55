import HTTPTypes
import LatchkeyLogin

/// Sends a request with the session's token. Repeats it once if the server requires its nonce.
func send(
    _ request: HTTPRequest, with container: Container,
    over transport: any HTTPTransport
) async throws -> HTTPResponse {
    var authorized = request
    try await container.authorizeRequest(&authorized)
    let (response, _) = try await transport.send(authorized, body: [])
    guard response.status == .unauthorized, let name = HTTPField.Name("DPoP-Nonce"),
        let nonce = response.headerFields[name]
    else { return response }
    try await container.authorizeRequest(&authorized, nonce: nonce)
    return try await transport.send(authorized, body: []).0
}
