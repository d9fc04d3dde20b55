internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// The server's endpoints as calls: <doc:LockerProtocol>. One value serves one operation, whose name its errors carry.
struct LockerServer: Sendable {
    static let easyAccessGrant = "urn:latchkey:params:oauth:grant-type:easy-access"
    static let backgroundAccessGrant = "urn:latchkey:params:oauth:grant-type:background-access"

    let operation: String
    let clientID: String
    let discovery: LockerDiscovery
    let transport: any HTTPTransport

    // MARK: Tokens

    func challenge() async throws(ErsteGroupAuthError) -> String {
        struct Answer: Decodable {
            struct Result: Decodable { let token: String }
            let result: Result
        }
        let body = try encode(["purpose": "locker_request"])
        let answer = try await success(json(discovery.challenge), body).json(Answer.self, operation).result.token
        guard !answer.isEmpty, answer.utf8.count <= 256 else {
            throw .invalidResponse(operation, "the server's challenge is none")
        }
        return answer
    }

    func exchange(_ code: AuthorizationCode, redirectURI: String) async throws(ErsteGroupAuthError) -> LockerAnswer {
        try await success(
            form(discovery.token),
            Self.body([
                ("client_id", clientID), ("grant_type", "authorization_code"), ("code", code.code),
                ("redirect_uri", redirectURI), ("code_verifier", code.codeVerifier),
            ]))
    }

    /// A token for an assertion, by one of the locker's grants.
    func token(_ grant: String, _ assertion: String, scopes: [String]) async throws(ErsteGroupAuthError) -> LockerAnswer
    {
        var fields = [("client_id", clientID), ("grant_type", grant), ("assertion", assertion)]
        if !scopes.isEmpty { fields.append(("scope", scopes.joined(separator: " "))) }
        return try await locker(form(discovery.token), Self.body(fields))
    }

    func keys() async throws(ErsteGroupAuthError) -> JWKSet {
        try await success(discovery.keys.request(.get), []).json(JWKSet.self, operation)
    }

    // MARK: The enrolment

    /// - Parameter id: The name that the enrolment must get.
    func enrol(
        _ assertion: String, as id: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) -> LockerEnrolmentAnswer {
        let answer = try await locker(json(enrolment(), token), encode(["assertion": assertion]))
            .json(LockerEnrolmentAnswer.self, operation)
        guard answer.enrolmentID == id else {
            throw .invalidResponse(operation, "the server's enrolment has another name than its key gives it")
        }
        return answer
    }

    /// - Parameter deviceSignature: The device key's, over the assertion: base64url of 64 bytes.
    func enableEasyAccess(
        _ id: String, _ assertion: String, deviceSignature: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) {
        try await locker(
            json(enrolment("/\(id)/easy-access"), token),
            encode(["assertion": assertion, "device_signature": deviceSignature])
        ).checkDone(operation)
    }

    /// Removes all easy-access keys, for a session of full access.
    func removeEasyAccess(_ id: String, _ token: SecretBytes) async throws(ErsteGroupAuthError) {
        var request = try enrolment("/\(id)/easy-access").request(.delete)
        request.headerFields[.authorization] = "Bearer \(token.text)"
        try await locker(request, []).checkDone(operation)
    }

    /// Removes what the device's assertion names; needs no session.
    func giveUpEasyAccess(_ id: String, _ assertion: String) async throws(ErsteGroupAuthError) {
        try await locker(json(enrolment("/\(id)/easy-access/disable")), encode(["assertion": assertion])).checkDone(
            operation)
    }

    func levelShares(
        _ id: String, _ assertion: String, _ token: SecretBytes
    ) async throws(ErsteGroupAuthError) -> LevelShares? {
        try await locker(json(enrolment("/\(id)/level-shares"), token), encode(["assertion": assertion])).shares(
            operation)
    }

    /// Revokes an enrolment by the device's statement; needs no session.
    func revoke(_ id: String, statement: String) async throws(ErsteGroupAuthError) {
        try await locker(json(enrolment("/\(id)/revoke")), encode(["assertion": statement])).checkDone(operation)
    }

    // MARK: Helpers

    private func enrolment(_ suffix: String = "") throws(ErsteGroupAuthError) -> Endpoint {
        guard let enrolment = discovery.enrolment else {
            throw .noLocker(operation)
        }
        return suffix.isEmpty ? enrolment : enrolment.appending(suffix)
    }

    /// A request of the locker's own protocol.
    private func locker(_ request: HTTPRequest, _ body: [UInt8]) async throws(ErsteGroupAuthError) -> LockerAnswer {
        try await LockerAnswer.success(transport, request, body, isOfLocker: true, operation)
    }

    private func success(_ request: HTTPRequest, _ body: [UInt8]) async throws(ErsteGroupAuthError) -> LockerAnswer {
        try await LockerAnswer.success(transport, request, body, operation)
    }

    private func json(_ endpoint: Endpoint, _ token: SecretBytes? = nil) -> HTTPRequest {
        var request = endpoint.request(.post, [.contentType: "application/json"])
        if let token { request.headerFields[.authorization] = "Bearer \(token.text)" }
        return request
    }

    private func form(_ endpoint: Endpoint) -> HTTPRequest {
        endpoint.request(.post, [.contentType: "application/x-www-form-urlencoded"])
    }

    private static func body(_ fields: [(name: String, value: String)]) -> [UInt8] {
        Array(FormEncoding.encode(fields).utf8)
    }

    private func encode(_ value: [String: String]) throws(ErsteGroupAuthError) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(value))
        } catch {
            throw ErsteGroupAuthError(operation, any: error)
        }
    }
}
