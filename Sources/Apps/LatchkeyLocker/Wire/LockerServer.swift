internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth

/// The endpoints of a server with the locker protocol as calls: <doc:LockerProtocol>.
struct LockerServer: Sendable {
    static let easyAccessGrant = "urn:latchkey:params:oauth:grant-type:easy-access"
    static let backgroundAccessGrant = "urn:latchkey:params:oauth:grant-type:background-access"

    let client: OAuthClient<ErsteGroupAuthErrorCode>

    /// - Parameter prover: Proves the key to which the server binds tokens; nil for none.
    init(
        clientID: String, discovery: ProviderMetadata, transport: any HTTPTransport,
        prover: DPoPProver? = nil
    ) {
        client = OAuthClient(
            discovery, clientID: clientID,
            over: ServerConnection(transport: transport, prover: prover))
    }

    var discovery: ProviderMetadata { client.metadata }

    /// Reads the server's metadata.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `server` when it names another issuer than
    ///   `issuer`, or an endpoint at another origin.
    static func discover(at issuer: Endpoint, _ transport: any HTTPTransport) async throws
        -> ProviderMetadata
    {
        let connection = ServerConnection<ErsteGroupAuthErrorCode>(transport: transport)
        let metadata = try await ProviderMetadata.read(at: issuer.text, over: connection)
        let origin = Endpoint(metadata.issuer)?.origin
        let endpoints = [metadata[.authorization], metadata[.token], metadata[.keys]].map {
            $0?.origin
        }
        guard let origin, endpoints.allSatisfy({ $0 == origin }),
            metadata.enrolment?.origin ?? origin == origin,
            metadata[.attestation]?.origin ?? origin == origin, metadata.enrolment?.hasQuery != true
        else {
            throw ErsteGroupAuthError.invalidResponse(
                "the server's metadata lacks an endpoint of the locker, or names one at another origin than the issuer's"
            )
        }
        return metadata
    }

    // MARK: Tokens

    func challenge() async throws -> String {
        struct Answer: Decodable {
            struct Result: Decodable { let token: String }
            let result: Result
        }
        guard let endpoint = discovery.challenge else {
            throw ErsteGroupAuthError(.missingEndpoint(.authorization))
        }
        let response = try await client.connection.post(["purpose": "locker_request"], to: endpoint)
            .successful()
        let answer = try response.json(Answer.self).result.token
        guard !answer.isEmpty, answer.utf8.count <= 256 else {
            throw ErsteGroupAuthError.invalidResponse(
                "the server's challenge is empty or longer than 256 bytes")
        }
        return answer
    }

    /// Requests a token for an assertion, with one of the locker's grants.
    func token(
        _ grant: String, _ assertion: String, scopes: [String]
    ) async throws -> ServerResponse<ErsteGroupAuthErrorCode> {
        var form = [("grant_type", grant), ("assertion", assertion)]
        if !scopes.isEmpty { form.append(("scope", scopes.joined(separator: " "))) }
        return try await client.post(form, to: .token).checkedByLocker()
    }

    // MARK: Enrolment
    // A token is the value of the field `Authorization`.

    /// - Parameters:
    ///   - attestation: The proof that the key is in hardware; nil for a server that gets none.
    ///   - id: The required name of the enrolment.
    func enrol(
        _ assertion: String, attestation: JSONValue?, as id: String, _ token: SecretBytes
    ) async throws -> LockerEnrolmentAnswer {
        var members: [String: JSONValue] = ["assertion": .string(assertion)]
        members["attestation"] = attestation
        let answer = try await post("", members, token: token).json(LockerEnrolmentAnswer.self)
        guard answer.enrolmentID == id else {
            throw ErsteGroupAuthError.invalidResponse(
                "the enrolment's ID from the server does not match its device key")
        }
        return answer
    }

    /// - Parameters:
    ///   - deviceSignature: The device key's signature over the assertion: base64url of 64 bytes.
    ///   - attestation: The proof that the key is in hardware; nil for a server that gets none.
    func enableEasyAccess(
        _ id: String, assertion: String, deviceSignature: String, attestation: JSONValue?,
        token: SecretBytes
    ) async throws {
        var members: [String: JSONValue] = [
            "assertion": .string(assertion), "device_signature": .string(deviceSignature),
        ]
        members["attestation"] = attestation
        try await post("/\(id)/easy-access", members, token: token).checkNoContent()
    }

    /// Removes all easy-access keys. Requires a session with full access.
    func removeEasyAccessKeys(_ id: String, _ token: SecretBytes) async throws {
        let request = try enrolment("/\(id)/easy-access").request(
            .delete, [.authorization: token.text])
        try await client.connection.send(request).checkedByLocker().checkNoContent()
    }

    /// Removes the key that the device's assertion names. Requires no session.
    func removeEasyAccessKey(_ id: String, _ assertion: String) async throws {
        try await post("/\(id)/easy-access/disable", ["assertion": .string(assertion)])
            .checkNoContent()
    }

    func levelShares(_ id: String, assertion: String, token: SecretBytes) async throws
        -> LevelKeyShares?
    {
        try await post("/\(id)/level-shares", ["assertion": .string(assertion)], token: token)
            .shares()
    }

    /// Revokes an enrolment with the device's statement. Requires no session.
    func revoke(_ id: String, statement: String) async throws {
        try await post("/\(id)/revoke", ["assertion": .string(statement)]).checkNoContent()
    }

    // MARK: Helpers

    private func enrolment(_ path: String) throws -> Endpoint {
        guard let enrolment = discovery.enrolment else { throw ErsteGroupAuthError.noLocker }
        return path.isEmpty ? enrolment : enrolment.appending(path)
    }

    /// Posts JSON to a path below the enrolment endpoint.
    private func post(
        _ path: String, _ members: [String: JSONValue], token: SecretBytes? = nil
    ) async throws -> ServerResponse<ErsteGroupAuthErrorCode> {
        try await client.connection.post(
            members, to: enrolment(path), authorization: token?.text
        )
        .checkedByLocker()
    }

}

extension ProviderMetadata {
    /// nil for a server without the locker protocol.
    var enrolment: Endpoint? { self[.lockerEnrolment] }
}

private struct SharesMember: Decodable {
    let level_shares: LevelKeyShares?
}

extension ServerResponse<ErsteGroupAuthErrorCode> {
    /// Maps an error to the codes of the locker protocol. Only its endpoints and grants may end an
    /// enrolment.
    fileprivate func checkedByLocker() throws(ErsteGroupAuthError) -> Self {
        guard isSuccess else { throw .refusedByLocker(refusal) }
        return self
    }

    /// Checks for status 204. A page of a proxy has another status.
    fileprivate func checkNoContent() throws(ErsteGroupAuthError) {
        guard status == 204 else { throw ErsteGroupAuthError(.refused(refusal)) }
    }

    /// The shares in the response; nil without any.
    func shares() throws(ErsteGroupAuthError) -> LevelKeyShares? {
        try json(SharesMember.self).level_shares
    }

    /// The tokens in the response.
    func checkedTokens() throws(ErsteGroupAuthError) -> TokenResponse {
        try tokens().checked(for: ErsteGroupAuthErrorCode.self)
    }
}

/// The server's shares of the keys that protect `background` and `active`: 32 bytes each.
struct LevelKeyShares: Decodable, Sendable {
    static let byteCount = 32

    let background: SecretBytes?
    let active: SecretBytes?

    private enum CodingKeys: String, CodingKey {
        case background, active
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        func share(_ key: CodingKeys) throws -> SecretBytes? {
            guard let text = try container.decodeIfPresent(String.self, forKey: key) else {
                return nil
            }
            guard var bytes = Base64URL.decode(text), bytes.count == Self.byteCount else {
                throw DecodingError.dataCorruptedError(
                    forKey: key, in: container, debugDescription: "not a share")
            }
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return SecretBytes(bytes)
        }
        background = try share(.background)
        active = try share(.active)
    }
}

/// The server's answer to an enrolment.
struct LockerEnrolmentAnswer: Decodable, Sendable {
    let enrolmentID: String
    /// nil if the server does not store level shares.
    let levelShares: LevelKeyShares?

    private enum CodingKeys: String, CodingKey {
        case enrolmentID = "enrolment_id"
        case levelShares = "level_shares"
    }
}
