internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// One request, one answer, with the errors of a login.
struct Wire: Sendable {
    let transport: any HTTPTransport

    /// - Returns: The answer, whatever its status.
    func exchange(_ request: HTTPRequest, _ body: [UInt8], _ operation: String) async throws(LoginError)
        -> ServerResponse
    {
        do {
            let (response, bytes) = try await transport.send(request, body: body)
            return ServerResponse(status: response.status.code, fields: response.headerFields, body: Data(bytes))
        } catch {
            throw .transport(operation, error)
        }
    }

    /// - Throws: ``LoginError`` for every answer outside of 200 to 299.
    func success(_ request: HTTPRequest, _ body: [UInt8], _ operation: String) async throws(LoginError)
        -> ServerResponse
    {
        let response = try await exchange(request, body, operation)
        guard response.isSuccess else { throw response.failure(operation) }
        return response
    }

    /// Reads the server's discovery document.
    ///
    /// - Parameter additionalOrigins: The origins next to the server's own that may get secrets.
    /// - Throws: ``LoginError`` with code `invalidResponse` when it names another issuer than the address under which
    ///   it was found (OpenID Connect Discovery section 4.3), or an endpoint that a token must not be sent to.
    func discover(
        _ endpoint: Endpoint, additionalOrigins: Set<String>, _ operation: String
    ) async throws(LoginError) -> DiscoveryDocument {
        let request = endpoint.appending(DiscoveryDocument.path).request(.get)
        let document = try await success(request, [], operation).json(DiscoveryDocument.self, operation)
        do throws(MetadataFlaw) {
            try document.metadata.check(
                at: endpoint, secretsGoTo: document.secretEndpoints, additionalOrigins: additionalOrigins)
        } catch {
            throw .invalidMetadata(operation, error)
        }
        return document
    }
}
