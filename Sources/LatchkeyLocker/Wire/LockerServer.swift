internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyHTTP
package import LatchkeyOAuth

/// The endpoints of a server with the locker protocol as calls, for one operation: <doc:LockerProtocol>.
struct LockerServer: Sendable {
    static let easyAccessGrant = "urn:latchkey:params:oauth:grant-type:easy-access"
    static let backgroundAccessGrant = "urn:latchkey:params:oauth:grant-type:background-access"

    let client: OAuthClient<ErsteGroupAuthError>

    init(operation: String, clientID: String, discovery: ProviderMetadata, transport: any HTTPTransport) {
        client = OAuthClient(
            discovery, clientID: clientID, over: ServerConnection(transport: transport, operation: operation))
    }

    var operation: String { client.operation }
    var discovery: ProviderMetadata { client.metadata }

    /// Reads the server's metadata.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `server` when it names another issuer than `issuer`, or an endpoint at
    ///   another origin.
    static func discover(
        at issuer: Endpoint, _ transport: any HTTPTransport, _ operation: String
    ) async throws(ErsteGroupAuthError) -> ProviderMetadata {
        let connection = ServerConnection<ErsteGroupAuthError>(transport: transport, operation: operation)
        let metadata = try await ProviderMetadata.read(at: issuer.text, over: connection)
        let origin = Endpoint(metadata.issuer)?.origin
        let endpoints = [metadata[.authorization], metadata[.token], metadata[.keys]].map { $0?.origin }
        guard let origin, endpoints.allSatisfy({ $0 == origin }), metadata.enrolment?.origin ?? origin == origin,
            metadata.enrolment?.path.contains("?") != true
        else { throw connection.failure(.malformed) }
        return metadata
    }

    // MARK: Tokens

    func challenge() async throws(ErsteGroupAuthError) -> String {
        struct Answer: Decodable {
            struct Result: Decodable { let token: String }
            let result: Result
        }
        guard let endpoint = discovery.challenge else { throw client.connection.failure(.malformed) }
        let body = try encode(["purpose": "locker_request"])
        let answer = try await client.connection.success(json(endpoint), body).json(Answer.self).result.token
        guard !answer.isEmpty, answer.utf8.count <= 256 else {
            throw .invalidResponse(operation, "the server's challenge is empty or longer than 256 bytes")
        }
        return answer
    }

    func exchange(
        _ code: AuthorizationCode, redirectURI: String
    ) async throws(ErsteGroupAuthError) -> ServerResponse<ErsteGroupAuthError> {
        try await client.redeem(code.code, verifier: code.codeVerifier, redirectURI: redirectURI)
    }

    /// Requests a token for an assertion, with one of the locker's grants.
    func token(
        _ grant: String, _ assertion: String, scopes: [String]
    ) async throws(ErsteGroupAuthError) -> ServerResponse<ErsteGroupAuthError> {
        var form = [("grant_type", grant), ("assertion", assertion)]
        if !scopes.isEmpty { form.append(("scope", scopes.joined(separator: " "))) }
        return try checked(await client.post(form, to: .token))
    }

    // MARK: Enrolment

    /// - Parameter id: The required name of the enrolment.
    func enrol(
        _ assertion: String, as id: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) -> LockerEnrolmentAnswer {
        let answer = try await locker(json(enrolment(), token), encode(["assertion": assertion]))
            .json(LockerEnrolmentAnswer.self)
        guard answer.enrolmentID == id else {
            throw .invalidResponse(operation, "the enrolment's ID from the server does not match its device key")
        }
        return answer
    }

    /// - Parameter deviceSignature: The device key's signature over the assertion: base64url of 64 bytes.
    func enableEasyAccess(
        _ id: String, _ assertion: String, deviceSignature: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) {
        try await locker(
            json(enrolment("/\(id)/easy-access"), token),
            encode(["assertion": assertion, "device_signature": deviceSignature])
        ).checkNoContent()
    }

    /// Removes all easy-access keys. Requires a session with full access.
    func removeEasyAccess(_ id: String, _ token: SecretBytes) async throws(ErsteGroupAuthError) {
        var request = try enrolment("/\(id)/easy-access").request(.delete)
        request.headerFields[.authorization] = "Bearer \(token.text)"
        try await locker(request, []).checkNoContent()
    }

    /// Removes the key that the device's assertion names. Requires no session.
    func giveUpEasyAccess(_ id: String, _ assertion: String) async throws(ErsteGroupAuthError) {
        try await locker(json(enrolment("/\(id)/easy-access/disable")), encode(["assertion": assertion]))
            .checkNoContent()
    }

    func levelShares(
        _ id: String, _ assertion: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) -> LevelShares? {
        try await locker(json(enrolment("/\(id)/level-shares"), token), encode(["assertion": assertion])).shares()
    }

    /// Revokes an enrolment with the device's statement. Requires no session.
    func revoke(_ id: String, statement: String) async throws(ErsteGroupAuthError) {
        try await locker(json(enrolment("/\(id)/revoke")), encode(["assertion": statement])).checkNoContent()
    }

    // MARK: Helpers

    private func enrolment(_ suffix: String = "") throws(ErsteGroupAuthError) -> Endpoint {
        guard let enrolment = discovery.enrolment else { throw .noLocker(operation) }
        return suffix.isEmpty ? enrolment : enrolment.appending(suffix)
    }

    /// Sends a request of the locker protocol.
    private func locker(
        _ request: HTTPRequest, _ body: [UInt8]
    ) async throws(ErsteGroupAuthError) -> ServerResponse<ErsteGroupAuthError> {
        try checked(await client.connection.send(request, body))
    }

    /// Maps an error to the codes of the locker protocol. Only its endpoints and grants may end an enrolment.
    private func checked(
        _ response: ServerResponse<ErsteGroupAuthError>
    ) throws(ErsteGroupAuthError) -> ServerResponse<ErsteGroupAuthError> {
        guard !response.isSuccess else { return response }
        guard let error = OAuthFailure.error(in: response.body) else { throw response.failure }
        throw .refusedByLocker(operation, error, status: response.status)
    }

    private func json(_ endpoint: Endpoint, _ token: SecretBytes? = nil) -> HTTPRequest {
        var request = endpoint.request(.post, [.contentType: "application/json"])
        if let token { request.headerFields[.authorization] = "Bearer \(token.text)" }
        return request
    }

    private func encode(_ value: [String: String]) throws(ErsteGroupAuthError) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(value))
        } catch {
            throw ErsteGroupAuthError(operation, any: error)
        }
    }
}

extension ProviderMetadata {
    /// nil for a server without the locker protocol.
    var enrolment: Endpoint? { self[.lockerEnrolment] }
}

private struct SharesMember: Decodable {
    let level_shares: LevelShares?
}

private struct ScopeMember: Decodable {
    let scope: String?
}

extension ServerResponse<ErsteGroupAuthError> {
    /// Checks for status 204. A page of a proxy has another status.
    func checkNoContent() throws(ErsteGroupAuthError) {
        guard status == 204 else { throw .unexpectedStatus(operation, status) }
    }

    /// The shares in the response; nil without any.
    func shares() throws(ErsteGroupAuthError) -> LevelShares? {
        try json(SharesMember.self).level_shares
    }

    /// The scopes of a token. A response without them grants the requested ones (RFC 6749 section 5.1).
    func scopes(asked: [String]) throws(ErsteGroupAuthError) -> [String] {
        try json(ScopeMember.self).scope?.split(separator: " ").map(String.init) ?? asked
    }
}

extension ErsteGroupAuthError: OAuthClientError {
    package init(_ operation: String, _ failure: OAuthFailure) {
        self =
            switch failure {
            case .transport(let error): .transport(operation, error)
            case .refused(let status, let body):
                if let error = OAuthFailure.error(in: body) {
                    .refused(operation, error, status: status)
                } else {
                    .unexpectedStatus(operation, status)
                }
            case .metadata(let flaw): .invalidResponse(operation, flaw.reason)
            case .idToken(let flaw): ErsteGroupAuthError(operation, flaw)
            case .missingEndpoint(let name):
                .invalidResponse(operation, "the server's metadata has no ‘\(name.rawValue)’")
            case .invalidAddress, .malformed, .keysTooFresh:
                .invalidResponse(operation, "the server's response does not follow its protocol")
            }
    }
}
