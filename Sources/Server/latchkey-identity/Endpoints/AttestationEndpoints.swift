import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging

/// The endpoints below `/attestation`: a client proves that its attestation key is in the TPM of an
/// endorsement certificate, and gets a certificate for it. All bytes are base64url.
struct AttestationEndpoints: Sendable {
    static let path = "/attestation"

    private struct Begun: Encodable {
        let id: String
        let credential_blob: String
        let encrypted_secret: String
        let expires_at: String
    }

    let services: IdentityServices
    let attestation: AttestationServices

    func add(to router: Router<IdentityContext>) {
        router.post("\(Self.path)/activation", use: begin)
        router.post("\(Self.path)/activation/:id", use: finish)
        if !attestation.configuration.brokerTokenDigest.isEmpty {
            router.post("\(Self.path)/approval-key", use: enrolApprovalKey)
        }
    }

    /// POST `…/activation`, body `{"ek_certificates": […], "attestation_key": "…"}`: answers 201
    /// with a message for the TPM.
    func begin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let user = try await user(request)
        struct Body: Decodable {
            let ek_certificates: [EncodedBytes]
            let attestation_key: EncodedBytes
        }
        let body = try await request.oauthBody(Body.self)
        let (challenge, activation) = try attestation.authority.challenge(
            endorsement: body.ek_certificates.map(\.data),
            attestationKey: body.attestation_key.data)
        let id = try await attestation.pending.add(activation, of: user)
        let answer = Begun(
            id: id, credential_blob: Base64URL.encode(challenge.credentialBlob),
            encrypted_secret: Base64URL.encode(challenge.encryptedSecret),
            expires_at: activation.expiresAt.formatted(.iso8601))
        return try .json(answer, status: .created)
    }

    /// POST `…/activation/{id}`, body `{"secret": "…"}`: answers 200 with `{"x5c": […]}`. Any
    /// answer uses the activation up.
    func finish(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let user = try await user(request)
        struct Body: Decodable { let secret: EncodedBytes }
        let secret = try await request.oauthBody(Body.self).secret.data
        guard let activation = try await attestation.pending.take(id, of: user) else {
            throw AttestationError(.activationFailed, "there is no such activation of this user")
        }
        let chain = try await attestation.authority.certificate(
            for: activation, secret: secret, recordingIn: attestation.registry)
        context.logger.notice("attestation key certified", metadata: ["user": "\(user)"])
        return try .json(["x5c": chain.map { Base64URL.encode($0) }])
    }

    /// POST `…/approval-key`, body `{"challenge": "…", "attestation": {…}}`: answers 200 with
    /// `{"name": "…"}`. Requires the administrators' token.
    func enrolApprovalKey(_ request: Request, _ context: IdentityContext) async throws -> Response {
        guard try await user(request) == Self.administrator else {
            throw OAuthError.insufficientScope("of an administrator")
        }
        struct Body: Decodable {
            let challenge: String
            let attestation: JSONValue
        }
        let body = try await request.oauthBody(Body.self)
        let name = try await attestation.enrolApprovalKey(
            CanonicalJSON.encode(body.attestation), challenge: body.challenge,
            of: services.challenges)
        context.logger.notice(
            "approval key enrolled", metadata: ["name": "\(AttestationConfiguration.text(name))"])
        return try .json(["name": AttestationConfiguration.text(name)])
    }

    /// The owner of activations that the administrators' token began. No user has this ID.
    private static let administrator = "administrator"

    /// The ID of the user whose bearer token with full access the request has, or
    /// ``administrator``.
    private func user(_ request: Request) async throws -> String {
        if let token = request.accessToken, !token.isBound,
            attestation.isAdministrator(token.text)
        {
            return Self.administrator
        }
        guard let session = try await services.session(of: request) else {
            throw OAuthError.invalidToken("the access token is unknown or has expired")
        }
        guard session.grant.hasFullAccess else {
            throw OAuthError.insufficientScope(Scope.fullAccess)
        }
        return session.user.id
    }
}

/// Bytes that are base64url in JSON.
private struct EncodedBytes: Decodable {
    let data: Data

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let data = Base64URL.decode(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "not base64url without padding")
        }
        self.data = data
    }
}
