import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging

/// The endpoints below `/attestation`: a client proves that its attestation key is in the TPM of an endorsement certificate, and gets
/// a certificate for it. All bytes are base64url.
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
    }

    /// POST `…/activation`, body `{"ek_certificates": […], "attestation_key": "…"}`: answers 201 with a message for the TPM.
    func begin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let session = try await session(request, context)
        let body = try await request.attestationMembers(["ek_certificates", "attestation_key"], context)
        guard let certificates = body["ek_certificates"]?.array?.map({ $0.string.flatMap { Base64URL.decode($0) } }),
            !certificates.contains(nil), let area = body["attestation_key"]?.string.flatMap({ Base64URL.decode($0) })
        else { throw OAuthError.invalidRequest("ek_certificates and attestation_key are not base64url") }
        let (challenge, activation) = try attestation.authority(context.logger).challenge(
            endorsement: certificates.compactMap { $0 }, attestationKey: area)
        let id = try await attestation.pending.add(activation, of: session.user.id)
        let answer = Begun(
            id: id, credential_blob: Base64URL.encode(challenge.credentialBlob),
            encrypted_secret: Base64URL.encode(challenge.encryptedSecret),
            expires_at: activation.expiresAt.formatted(.iso8601))
        return try .json(answer, status: .created)
    }

    /// POST `…/activation/{id}`, body `{"secret": "…"}`: answers 200 with `{"x5c": […]}`. Any answer uses the activation up.
    func finish(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let session = try await session(request, context)
        let body = try await request.attestationMembers(["secret"], context)
        guard let secret = body["secret"]?.string.flatMap({ Base64URL.decode($0) }) else {
            throw OAuthError.invalidRequest("secret is not base64url")
        }
        guard let activation = try await attestation.pending.take(id, of: session.user.id) else {
            throw AttestationError(.activationFailed, "there is no such activation of this user")
        }
        let chain = try attestation.authority(context.logger).certificate(for: activation, secret: secret)
        if attestation.configuration.keepsEndorsement {
            let days = Double(attestation.configuration.certificateDays)
            try await attestation.registry.record(
                activation.attestationKey, in: activation.endorsementKeyDigest,
                until: services.clock.now.addingTimeInterval(days * 86_400))
        }
        context.logger.notice("attestation key certified", metadata: ["user": "\(session.user.id)"])
        return try .json(["x5c": chain.map { Base64URL.encode($0) }])
    }

    /// The session of the request's bearer token, which must have full access.
    private func session(_ request: Request, _ context: IdentityContext) async throws -> GrantStore.Session {
        try await attestation.addressLimit.require(context.network)
        guard let session = try await services.session(bearer: request.bearerToken) else {
            throw OAuthError.invalidToken("the access token is unknown or has expired")
        }
        guard session.grant.hasFullAccess else { throw OAuthError.insufficientScope(Scope.fullAccess) }
        try await attestation.userLimit.require(session.user.id)
        return session
    }
}

extension Request {
    /// Reads a JSON object that has these members and no other.
    fileprivate func attestationMembers(
        _ names: [String], _ context: IdentityContext
    ) async throws -> [String: JSONValue] {
        let body: [String: JSONValue]
        do {
            body = try await jsonObject(context)
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
