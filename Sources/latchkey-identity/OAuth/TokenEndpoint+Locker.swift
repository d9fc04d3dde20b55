import FoundationEssentials
import Hummingbird
import LatchkeyRelyingParty

extension TokenEndpoint {
    /// A session for a device's user, proved by a key that signs when it gets its PIN.
    func easyAccess(_ form: FormFields, client: ClientConfiguration) async throws -> Response {
        let wanted = form.words("scope")
        let scopes = wanted.isEmpty ? Scope.easyAccessDefault : wanted
        try Scope.validate(scopes)
        let (locker, assertion) = try lockerAssertion(form)
        let (enrolment, key) = try await locker.verifier.verifyEasyAccess(assertion, audience: services.issuer)
        let shares = try await locker.levelShares(of: enrolment)
        return try await answer(
            .easyAccess(enrolment, key), of: enrolment, locker, form, client: client, scopes: scopes,
            shares: shares.map(ReleasedShares.both))
    }

    /// A narrow token for a device without its user.
    func backgroundAccess(_ form: FormFields, client: ClientConfiguration) async throws -> Response {
        let (locker, assertion) = try lockerAssertion(form)
        let allowed = locker.configuration.backgroundScopes
        let wanted = form.words("scope")
        let scopes = wanted.isEmpty ? allowed : wanted
        if let unknown = scopes.first(where: { !allowed.contains($0) }) {
            throw OAuthError.invalidScope("specified scope is not allowed: \(unknown)")
        }
        let enrolment = try await locker.verifier.verifyBackgroundAccess(assertion, audience: services.issuer)
        let shares = try await locker.levelShares(of: enrolment)
        return try await answer(
            .background(enrolment), of: enrolment, locker, form, client: client, scopes: scopes,
            shares: shares.map(ReleasedShares.backgroundAlone))
    }

    private func lockerAssertion(_ form: FormFields) throws -> (LockerServices, LockerRequest) {
        guard let locker = services.locker else {
            throw OAuthError("unsupported_grant_type", "grant type is not supported")
        }
        guard let assertion = form["assertion"] else { throw OAuthError.invalidRequest("assertion is required") }
        return (locker, try LockerRequest(assertion))
    }

    /// The user's limit is counted here, once the signature has told who it is: a stranger can't use it up.
    private func answer(
        _ proof: GrantProof, of enrolment: LockerEnrolment, _ locker: LockerServices, _ form: FormFields,
        client: ClientConfiguration, scopes: [String], shares: ReleasedShares?
    ) async throws -> Response {
        try enrolment.requireClient(client.id)
        try locker.userLimit.require(enrolment.userID)
        guard let user = try await services.users.user(id: enrolment.userID), !user.isDisabled else {
            throw OAuthError.invalidGrant("the user may not log in")
        }
        let grant = grant(
            proof, user: user, client: client, scope: scopes.joined(separator: " "),
            authTime: services.clock.now.timeIntervalSince1970, deviceInfo: try deviceInfo(form))
        var tokens = try await tokens(for: grant, user: user, client: client)
        tokens.scope = grant.scope
        tokens.levelShares = shares
        guard try await services.grants.insert(grant, tokens: tokens) else {
            // Which of the two decides what the device gives up.
            guard try await locker.registry.enrolment(id: enrolment.id) != nil else {
                throw LockerRequestError(.enrolmentRevoked, "the enrolment has gone meanwhile")
            }
            throw LockerRequestError(.easyAccessRevoked, "the easy-access key has gone meanwhile")
        }
        try await locker.registry.recordUse(of: enrolment.id, at: services.clock.now)
        return try .json(tokens)
    }
}
