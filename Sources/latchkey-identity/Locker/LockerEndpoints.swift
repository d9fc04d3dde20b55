import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import Logging

/// Enrolments of devices, and what belongs to them: `/locker/enrolments` (`LockerProtocol.md`).
struct LockerEndpoints: Sendable {
    static let path = "/locker/enrolments"
    /// The age in seconds from which on strong authentication has to be done again before a key is added.
    static let maximumAuthenticationAge = 300

    let services: IdentityServices
    let locker: LockerServices

    func add(to router: Router<IdentityContext>) {
        let enrolment = "\(Self.path)/:id"
        router.post(RouterPath(Self.path), use: enrol)
        router.post("\(enrolment)/easy-access", use: enableEasyAccess)
        router.delete("\(enrolment)/easy-access", use: disableEasyAccess)
        router.post("\(enrolment)/easy-access/disable", use: giveUpEasyAccess)
        router.post("\(enrolment)/revoke", use: revoke)
        if locker.configuration.levelShares { router.post("\(enrolment)/level-shares", use: levelShares) }
    }

    /// POST: enrols the device whose key signed.
    func enrol(_ request: Request, _ context: IdentityContext) async throws -> Response {
        struct Answer: Encodable {
            let enrolment_id: String
            let level_shares: ReleasedShares?
        }

        var request = request
        let session = try await session(request, context)
        try requireFreshAuthentication(session)
        let assertion = try await request.lockerAssertion(context)
        let proof = try await locker.verifier.verifyEnrolment(assertion, audience: services.issuer)
        let enrolment = LockerEnrolment(
            userID: session.user.id, clientID: session.grant.clientID, deviceKey: proof.deviceKey, info: proof.info,
            createdAt: services.clock.now)
        let shares = locker.configuration.levelShares ? LevelShares.random() : nil
        try await locker.registry.add(
            enrolment, shares: shares, limit: locker.configuration.maximumEnrolments)
        context.logger.notice("device enrolled", metadata: ["enrolment": "\(enrolment.id)"])
        return try .json(
            Answer(enrolment_id: enrolment.id, level_shares: shares.map(ReleasedShares.both)), status: .created)
    }

    /// POST `…/easy-access`: adds the key that signed, if the device wants it.
    func enableEasyAccess(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        let id = try context.parameters.require("id")
        let session = try await session(request, context)
        try requireFreshAuthentication(session)
        let (assertion, countersignature) = try await request.countersignedLockerAssertion(context)
        let (enrolment, key) = try await locker.verifier.verifyEasyAccessEnabling(
            assertion, countersignature: countersignature, audience: services.issuer, enrolmentID: id)
        try require(enrolment, of: session)
        try await locker.registry.addEasyAccessKey(key, to: enrolment.id)
        context.logger.notice("easy access enabled", metadata: ["enrolment": "\(enrolment.id)"])
        return .noContent
    }

    /// DELETE `…/easy-access`: removes the key that `kid` names, or all.
    func disableEasyAccess(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let id = try context.parameters.require("id")
        let session = try await session(request, context)
        let kid = try keyID(request)
        guard let enrolment = try await locker.registry.enrolment(id: id) else {
            throw LockerRequestError(.enrolmentRevoked, "there is no such enrolment")
        }
        try require(enrolment, of: session)
        try await locker.registry.removeEasyAccessKeys(named: kid, of: enrolment.id)
        context.logger.notice("easy access disabled", metadata: ["enrolment": "\(enrolment.id)"])
        return .noContent
    }

    /// POST `…/easy-access/disable`: removes the key that the assertion names, or all, on the device's word. It needs no
    /// session, for a device that has lost easy access may have none.
    func giveUpEasyAccess(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        try locker.addressLimit.require(context.network)
        let id = try context.parameters.require("id")
        let assertion = try await request.lockerAssertion(context)
        let enrolment = try await locker.verifier.verifyEasyAccessDisabling(
            assertion, audience: services.issuer, enrolmentID: id)
        try await locker.registry.removeEasyAccessKeys(named: assertion.easyAccessKeyID, of: enrolment.id)
        context.logger.notice("easy access given up", metadata: ["enrolment": "\(enrolment.id)"])
        return .noContent
    }

    /// POST `…/level-shares`: releases the shares to the device, after its user was authenticated.
    func levelShares(_ request: Request, _ context: IdentityContext) async throws -> Response {
        struct Answer: Encodable {
            let level_shares: ReleasedShares?
        }

        var request = request
        let id = try context.parameters.require("id")
        let session = try await session(request, context)
        let beganHere =
            session.grant.amr == .easyAccess && session.grant.enrolmentID == id
            && authenticationAge(of: session) <= Double(Self.maximumAuthenticationAge)
        guard session.grant.isStrong || beganHere else { throw OAuthError.insufficientUserAuthentication() }
        let assertion = try await request.lockerAssertion(context)
        let enrolment = try await locker.verifier.verifyLevelShares(
            assertion, audience: services.issuer, enrolmentID: id)
        try require(enrolment, of: session)
        let shares = try await locker.levelShares(of: enrolment)
        try await locker.registry.recordUse(of: enrolment.id, at: services.clock.now)
        return try .json(Answer(level_shares: shares.map(ReleasedShares.both)))
    }

    /// POST `…/revoke`: ends the enrolment, and every session that easy or background access began with it. It needs no
    /// session, may come late, and may come twice.
    func revoke(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        try locker.addressLimit.require(context.network)
        let id = try context.parameters.require("id")
        let assertion = try await request.lockerAssertion(context)
        if let enrolment = try await locker.verifier.verifyRevocation(
            assertion, audience: services.issuer, enrolmentID: id)
        {
            try await locker.registry.remove(id: enrolment.id)
            context.logger.notice("enrolment revoked", metadata: ["enrolment": "\(enrolment.id)"])
        }
        return .noContent
    }
}

extension LockerEndpoints {
    /// The session of the request's bearer token, which must have full access.
    private func session(_ request: Request, _ context: IdentityContext) async throws -> GrantStore.Session {
        try locker.addressLimit.require(context.network)
        guard let session = try await services.session(bearer: request.bearerToken) else {
            throw OAuthError.invalidToken("the access token is unknown or has expired")
        }
        guard session.grant.hasFullAccess else { throw OAuthError.insufficientScope(Scope.fullAccess) }
        try locker.userLimit.require(session.user.id)
        return session
    }

    private func requireFreshAuthentication(_ session: GrantStore.Session) throws(OAuthError) {
        guard session.grant.isStrong, authenticationAge(of: session) <= Double(Self.maximumAuthenticationAge) else {
            throw .insufficientUserAuthentication(maximumAge: Self.maximumAuthenticationAge)
        }
    }

    /// Seconds since the user was authenticated.
    private func authenticationAge(of session: GrantStore.Session) -> Double {
        services.clock.now.timeIntervalSince1970 - session.grant.authTime
    }

    private func require(_ enrolment: LockerEnrolment, of session: GrantStore.Session) throws(OAuthError) {
        guard enrolment.userID == session.user.id else {
            throw .invalidToken("the access token is another user's than the enrolment")
        }
        try enrolment.requireClient(session.grant.clientID)
    }

    private func keyID(_ request: Request) throws(OAuthError) -> KeyID? {
        guard let query = request.uri.query, !query.isEmpty else { return nil }
        guard let fields = FormFields(query), let kid = fields["kid"].flatMap(KeyID.init) else {
            throw .invalidRequest("kid is not the name of a key")
        }
        return kid
    }
}

extension LockerEnrolment {
    /// Refuses any client but the one that made the enrolment.
    func requireClient(_ clientID: String) throws(OAuthError) {
        guard clientID == self.clientID else { throw .unauthorizedClient("the enrolment is another client's") }
    }
}

extension Request {
    /// The assertion in the body, a JSON object with the member `assertion` and no other.
    ///
    /// - Throws: ``OAuthError``; ``LockerRequestError`` with code `malformed`.
    fileprivate mutating func lockerAssertion(_ context: IdentityContext) async throws -> LockerRequest {
        let body = try await lockerBody(context)
        guard body.count == 1, let assertion = body["assertion"]?.string else {
            throw OAuthError.invalidRequest("the body has the member assertion, a text, and no other")
        }
        return try LockerRequest(assertion)
    }

    /// The assertion in the body, and the device's signature over it: a JSON object with the members `assertion` and
    /// `device_signature` and no other.
    ///
    /// - Throws: ``OAuthError``; ``LockerRequestError`` with code `malformed`.
    fileprivate mutating func countersignedLockerAssertion(
        _ context: IdentityContext
    ) async throws -> (assertion: LockerRequest, countersignature: LockerCountersignature) {
        let body = try await lockerBody(context)
        guard
            body.count == 2, let assertion = body["assertion"]?.string, let signature = body["device_signature"]?.string
        else {
            throw OAuthError.invalidRequest(
                "the body has the members assertion and device_signature, both texts, and no other")
        }
        return (try LockerRequest(assertion), try LockerCountersignature(signature))
    }

    private mutating func lockerBody(_ context: IdentityContext) async throws -> [String: JSONValue] {
        do {
            return try await jsonObject(context)
        } catch let error as APIError {
            throw OAuthError.invalidRequest(error.message)
        }
    }
}
