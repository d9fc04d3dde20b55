import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging

/// The endpoints below `/locker/enrolments`, for device enrolments, easy access and level shares
/// (`LockerProtocol.md`).
struct LockerEndpoints: Sendable {
    static let path = "/locker/enrolments"
    /// The maximum age in seconds of the strong authentication that adding a key requires.
    static let maximumAuthenticationAge = 300
    private static let noSession = OAuthError.invalidToken(
        "the access token is unknown or has expired")

    /// The members of a request.
    private struct Body: Decodable {
        let assertion: String
        /// To enable easy access.
        let device_signature: String?
        /// For a new key.
        let attestation: JSONValue?
    }

    private struct Answer: Encodable {
        let enrolment_id: String?
        let level_shares: [String: String]?
    }

    let services: IdentityServices
    private var locker: LockerServices { services.locker }

    func add(to router: Router<IdentityContext>) {
        let enrolment = "\(Self.path)/:id"
        router.post(RouterPath(Self.path), use: enrol)
        router.post("\(enrolment)/easy-access", use: enableEasyAccess)
        router.delete("\(enrolment)/easy-access", use: disableEasyAccess)
        router.post("\(enrolment)/easy-access/disable", use: disableEasyAccessByDevice)
        router.post("\(enrolment)/revoke", use: revoke)
        if services.configuration.extensions.locker.levelShares {
            router.post("\(enrolment)/level-shares", use: levelShares)
        }
    }

    /// POST: enrols the device that signed the assertion.
    func enrol(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let session = try await session(request)
        try requireFreshAuthentication(session)
        let body = try await request.oauthBody(Body.self)
        let (assertion, attestation) = (
            try LockerRequest(body.assertion), try attestation(of: body)
        )
        let requirement = try requirement(attestation, session, isDeviceKey: true)
        var proof = try await locker.verifier.verifyEnrolment(assertion, audience: services.issuer)
        proof.deviceKey.attestation = try await verify(
            attestation, of: proof.deviceKey, assertion, requirement)
        let enrolment = LockerEnrolment(
            userID: session.user.id, clientID: session.grant.clientID, deviceKey: proof.deviceKey,
            info: proof.info,
            createdAt: services.clock.now)
        let shares = services.configuration.extensions.locker.levelShares ? LevelShares() : nil
        let added: Void? = try await services.grants.write(for: session) { [locker] in
            try locker.registry.add(
                enrolment, shares: shares, limit: LockerServices.maximumEnrolments, in: $0)
        }
        guard added != nil else { throw Self.noSession }
        context.logger.notice("device enrolled", metadata: ["enrolment": "\(enrolment.id)"])
        let answer = Answer(enrolment_id: enrolment.id, level_shares: shares?.bothReleased)
        return try .json(answer, status: .created)
    }

    /// POST `…/easy-access`: adds the key that signed the assertion, if the device key
    /// countersigned it.
    func enableEasyAccess(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let session = try await session(request)
        try requireFreshAuthentication(session)
        let body = try await request.oauthBody(Body.self)
        guard let signature = body.device_signature else {
            throw OAuthError.invalidRequest("device_signature is required")
        }
        let signed = (
            assertion: try LockerRequest(body.assertion),
            countersignature: try LockerCountersignature(signature)
        )
        let attestation = try attestation(of: body)
        let requirement = try requirement(attestation, session, isDeviceKey: false)
        let (enrolment, verified) = try await locker.verifier.verifyEasyAccessEnabling(
            signed.assertion, countersignature: signed.countersignature, audience: services.issuer,
            enrolmentID: id)
        // The device key's countersignature counts only while the key meets the requirement.
        _ = try await services.grants.permit(enrolment, in: session)
        var key = verified
        key.attestation = try await verify(attestation, of: key, signed.assertion, requirement)
        let added: Void? = try await services.grants.write(for: session) { [locker, key] in
            try locker.registry.addEasyAccessKey(key, to: enrolment, in: $0)
        }
        guard added != nil else { throw Self.noSession }
        context.logger.notice("easy access enabled", metadata: ["enrolment": "\(enrolment.id)"])
        return .empty(.noContent)
    }

    /// DELETE `…/easy-access`: removes all keys.
    func disableEasyAccess(_ request: Request, _ context: IdentityContext) async throws -> Response
    {
        let id = try context.parameters.require("id")
        let session = try await session(request)
        guard let enrolment = try await locker.registry.enrolment(id: id) else {
            throw LockerRequestError(.enrolmentRevoked, "there is no such enrolment")
        }
        // Removing a key needs no proof of hardware.
        try enrolment.requireOwner(userID: session.user.id, clientID: session.grant.clientID)
        guard session.grant.manages(enrolment) else {
            throw OAuthError.insufficientUserAuthentication()
        }
        try await locker.registry.removeAllEasyAccessKeys(of: enrolment)
        context.logger.notice("easy access disabled", metadata: ["enrolment": "\(enrolment.id)"])
        return .empty(.noContent)
    }

    /// POST `…/easy-access/disable`: removes the key that the device's assertion names, or all keys
    /// without a name. Requires no session, because a device without easy access may have none.
    func disableEasyAccessByDevice(_ request: Request, _ context: IdentityContext) async throws
        -> Response
    {
        let id = try context.parameters.require("id")
        let assertion = try await assertion(in: request)
        let enrolment = try await locker.verifier.verifyDevice(
            assertion, for: .easyAccessDisable, audience: services.issuer, enrolmentID: id)
        if let kid = assertion.easyAccessKeyID {
            try await locker.registry.removeEasyAccessKey(named: kid, of: enrolment)
        } else {
            try await locker.registry.removeAllEasyAccessKeys(of: enrolment)
        }
        context.logger.notice(
            "easy access disabled by the device", metadata: ["enrolment": "\(enrolment.id)"])
        return .empty(.noContent)
    }

    /// POST `…/level-shares`: releases the shares to the device after its user was authenticated.
    func levelShares(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let session = try await session(request)
        let beganHere =
            session.grant.amr == .easyAccess && session.grant.enrolmentID == id
            && authenticationAge(of: session) <= Double(Self.maximumAuthenticationAge)
        guard session.grant.isStrong || beganHere else {
            throw OAuthError.insufficientUserAuthentication()
        }
        let assertion = try await assertion(in: request)
        let enrolment = try await locker.verifier.verifyDevice(
            assertion, for: .levelShares, audience: services.issuer, enrolmentID: id)
        let permitted = try await services.grants.permit(enrolment, in: session)
        let shares = try await locker.levelShares(
            of: permitted, afterAuthenticationOf: session.user.id)
        try await locker.registry.recordUse(of: enrolment, at: services.clock.now)
        return try .json(Answer(enrolment_id: nil, level_shares: shares?.bothReleased))
    }

    /// POST `…/revoke`: deletes the enrolment and the sessions that easy or background access
    /// created with it. The device deletes its own keys, so its user stays logged in. Requires no
    /// session, accepts an assertion at any time, and succeeds when repeated.
    func revoke(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let assertion = try await assertion(in: request)
        if let enrolment = try await locker.verifier.verifyRevocation(
            assertion, audience: services.issuer, enrolmentID: id)
        {
            try await locker.registry.remove(enrolment)
            context.logger.notice("enrolment revoked", metadata: ["enrolment": "\(enrolment.id)"])
        }
        return .empty(.noContent)
    }

    /// The session of the request's bearer token, which must have full access.
    private func session(_ request: Request) async throws -> Session {
        guard let session = try await services.session(of: request) else { throw Self.noSession }
        guard session.grant.hasFullAccess else {
            throw OAuthError.insufficientScope(Scope.fullAccess)
        }
        return session
    }

    /// The assertion in a request. Other members are ignored.
    private func assertion(in request: Request) async throws -> LockerRequest {
        try LockerRequest(await request.oauthBody(Body.self).assertion)
    }

    /// The attestation of a new key; nil without one, or if the server does not support it.
    private func attestation(of body: Body) throws -> Data? {
        guard services.attestation != nil else { return nil }
        return try body.attestation.map { try CanonicalJSON.encode($0) }
    }

    /// The requirement for a new key; nil without attestation.
    private func requirement(
        _ attestation: Data?, _ session: Session, isDeviceKey: Bool
    ) throws(OAuthError) -> AttestationRequirement? {
        guard let own = services.attestation else { return nil }
        let requirement = own.requirement(
            services.configuration.client(id: session.grant.clientID), isDeviceKey: isDeviceKey)
        try own.requirePresent(attestation, under: requirement)
        return requirement
    }

    private func verify(
        _ attestation: Data?, of key: LockerKey, _ assertion: LockerRequest,
        _ requirement: AttestationRequirement?
    ) async throws -> AttestationRecord? {
        guard let attestation, let requirement else { return nil }
        guard let challenge = assertion.challenge else {
            throw LockerRequestError(.malformed, "there is no challenge")
        }
        return try await services.attestation?.verify(
            attestation, of: .es256(key.publicKey), named: key.kid, challenge: challenge,
            issuer: services.issuer, under: requirement)
    }

    private func requireFreshAuthentication(_ session: Session) throws(OAuthError) {
        guard session.grant.isStrong,
            authenticationAge(of: session) <= Double(Self.maximumAuthenticationAge)
        else {
            throw .insufficientUserAuthentication(maximumAge: Self.maximumAuthenticationAge)
        }
    }

    /// Seconds since the user was authenticated.
    private func authenticationAge(of session: Session) -> Double {
        services.clock.timestamp - session.grant.authTime
    }
}

/// The registry and the verifier of the locker's endpoints and grants.
struct LockerServices: Sendable {
    /// The maximum number of enrolled devices of one user.
    static let maximumEnrolments = 100

    let registry: LockerRegistry
    let verifier: LockerRequestVerifier

    init(
        database: any SQLDatabase, challenges: any ChallengeStore, secrets: SecretStore,
        clock: WallClock
    ) async throws {
        let name = "locker shares"
        let key = try await secrets.privateKey(name) { .random(count: 32) }
        registry = try SecretStore.reading(name) {
            try LockerRegistry(database, project: IdentitySchema.project, shareKey: key)
        }
        verifier = LockerRequestVerifier(challenges: challenges, registry: registry, clock: clock)
    }

    /// The shares to release for an enrolment after its user was authenticated; nil if the server
    /// stores none.
    func levelShares(
        of permitted: PermittedEnrolment, afterAuthenticationOf userID: String
    ) async throws -> LevelShares? {
        try await registry.levelShares(of: permitted.enrolment, afterAuthenticationOf: userID)
    }

    /// The share to release for an enrolment without its user; nil if the server stores none.
    func backgroundShare(of permitted: PermittedEnrolment) async throws -> SecretBytes? {
        try await registry.backgroundShare(of: permitted.enrolment)
    }
}

extension LevelShares {
    /// The shares in a response, base64url without padding, 43 characters each. They are no longer
    /// in locked memory, so create them only where the response is created.
    var bothReleased: [String: String] {
        ["background": Self.text(background), "active": Self.text(active)]
    }
    /// Only the share of the level `background`.
    static func released(background share: SecretBytes) -> [String: String] {
        ["background": text(share)]
    }

    private static func text(_ share: SecretBytes) -> String {
        share.withUnsafeBytes { Base64URL.encode(Data($0)) }
    }
}
