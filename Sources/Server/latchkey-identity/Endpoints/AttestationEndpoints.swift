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
        let body = try await request.attestationMembers(
            ["ek_certificates", "attestation_key"])
        guard
            let certificates = body["ek_certificates"]?.array?.map({
                $0.string.flatMap { Base64URL.decode($0) }
            }),
            !certificates.contains(nil),
            let area = body["attestation_key"]?.string.flatMap({ Base64URL.decode($0) })
        else {
            throw OAuthError.invalidRequest("ek_certificates and attestation_key are not base64url")
        }
        let (challenge, activation) = try attestation.authority.challenge(
            endorsement: certificates.compactMap { $0 }, attestationKey: area)
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
        let body = try await request.attestationMembers(["secret"])
        guard let secret = body["secret"]?.string.flatMap({ Base64URL.decode($0) }) else {
            throw OAuthError.invalidRequest("secret is not base64url")
        }
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
        let body = try await request.attestationMembers(["challenge", "attestation"])
        guard let challenge = body["challenge"]?.string, let statement = body["attestation"] else {
            throw OAuthError.invalidRequest("challenge is not a string")
        }
        let name = try await attestation.enrolApprovalKey(
            CanonicalJSON.encode(statement), challenge: challenge, of: services.challenges)
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

extension Request {
    /// Reads a JSON object that has these members and no other.
    fileprivate func attestationMembers(_ names: [String]) async throws -> [String: JSONValue] {
        let body: [String: JSONValue]
        do {
            body = try await jsonObject()
        } catch let error as APIError {
            throw OAuthError.invalidRequest(error.message)
        }
        guard Set(body.keys) == Set(names) else {
            throw OAuthError.invalidRequest(
                "the body must have the members \(names.joined(separator: " and ")), and no other")
        }
        return body
    }
}
