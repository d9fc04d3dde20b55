package import FoundationEssentials
package import HTTPTypes
package import Latchkey
package import LatchkeyHTTP

/// Sends the requests of one operation, and throws the facade's errors.
package struct ServerConnection<Failure: OAuthClientError>: Sendable {
    package let transport: any HTTPTransport
    /// The caller's operation, as a verb phrase for errors.
    package let operation: String

    package init(transport: any HTTPTransport, operation: String) {
        self.transport = transport
        self.operation = operation
    }

    package func failure(_ failure: OAuthFailure) -> Failure { Failure(operation, failure) }

    /// - Returns: The response, with any status.
    package func send(
        _ request: HTTPRequest, _ body: [UInt8] = []
    ) async throws(Failure) -> ServerResponse<Failure> {
        let response: HTTPResponse
        let bytes: [UInt8]
        do {
            (response, bytes) = try await transport.send(request, body: body)
        } catch {
            throw failure(.transport(error))
        }
        return ServerResponse(
            operation: operation, status: response.status.code, fields: response.headerFields, body: Data(bytes))
    }

    /// - Throws: ``OAuthFailure/refused(status:body:)`` for a status outside 200...299.
    package func success(
        _ request: HTTPRequest, _ body: [UInt8] = []
    ) async throws(Failure) -> ServerResponse<Failure> {
        try await send(request, body).successful()
    }

    package func json<T: Decodable>(_ type: T.Type, _ request: HTTPRequest) async throws(Failure) -> T {
        try await success(request).json(type)
    }
}

/// An HTTP response of a server.
package struct ServerResponse<Failure: OAuthClientError>: Sendable {
    package let operation: String
    package let status: Int
    let fields: HTTPFields
    package let body: Data

    package var isSuccess: Bool { (200..<300).contains(status) }

    /// The server's clock in whole seconds, from the field `Date` (RFC 9110 section 6.6.1).
    package var date: Date? { fields[.date].flatMap(HTTPDate.parse) }

    /// The error for an unsuccessful response.
    package var failure: Failure { Failure(operation, .refused(status: status, body: body)) }

    /// - Throws: ``failure`` for a status outside 200...299.
    package func successful() throws(Failure) -> Self {
        guard isSuccess else { throw failure }
        return self
    }

    /// Decodes the body as JSON, with any content type.
    package func json<T: Decodable>(_ type: T.Type) throws(Failure) -> T {
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            throw Failure(operation, .malformed)
        }
    }
}

/// A facade's error type, which the OAuth client throws.
package protocol OAuthClientError: Error {
    /// - Parameter operation: A verb phrase: `log in`.
    init(_ operation: String, _ failure: OAuthFailure)
}

/// Why a request to a server has no usable result.
package enum OAuthFailure: Error, Sendable {
    /// The configured address is neither `https` nor on a loopback host.
    case invalidAddress(String)
    /// The transport received no response.
    case transport(KeystoreError)
    /// The status is outside 200...299.
    case refused(status: Int, body: Data)
    /// The response does not follow the protocol.
    case malformed
    case metadata(MetadataFlaw)
    /// The server's metadata has no such endpoint.
    case missingEndpoint(ProviderMetadata.EndpointName)
    case idToken(IDTokenFlaw)
    /// No known key made the signature, and the keys are too fresh to be read again.
    case keysTooFresh

    /// The OAuth error in a body (RFC 6749 section 5.2), with any content type.
    package static func error(in body: Data) -> OAuth2Error? { try? JSONDecoder().decode(OAuth2Error.self, from: body) }
}
