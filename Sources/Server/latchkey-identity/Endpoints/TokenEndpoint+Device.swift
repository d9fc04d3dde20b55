import FoundationEssentials
import Hummingbird
import LatchkeyRelyingParty

extension TokenEndpoint {
    /// The biometric grant. Clients rely on the order of the checks, which `ErrorTableTests` lists.
    func biometric(
        _ http: Request, _ form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        guard let jwt = form["jwt"] else { throw OAuthError.invalidRequest("jwt is required") }
        guard !services.configuration.identity.biometric.disabled else {
            throw OAuthError.invalidRequest("biometric authentication is disabled")
        }
        let request = try BiometricRequest(jwt)
        do {
            return switch request.action {
            case .setup: try await setUp(request, http, form: form, client: client)
            case .authenticate: try await authenticate(request, http, form: form, client: client)
            }
        } catch var error as BiometricRequestError {
            error.keyID = request.keyID
            throw error
        }
    }

    /// Adds a device to the user of the session.
    private func setUp(
        _ request: BiometricRequest, _ http: Request, form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let ended = OAuthError(
            status: 401, "invalid_grant", "biometric setup requires authenticated user")
        guard let session = try await services.session(of: http), session.grant.hasFullAccess
        else { throw ended }
        // Revoking an enrolment ends its sessions, but would not remove an identity that such a
        // session added.
        guard session.grant.enrolmentID == nil else {
            throw OAuthError.insufficientUserAuthentication()
        }
        let attestation =
            services.attestation == nil ? nil : form["attestation"].map { Data($0.utf8) }
        let requirement = services.attestation?.requirement(client)
        if let requirement {
            try services.attestation?.requirePresent(attestation, under: requirement)
        }
        let proof = try await services.verifier.verifySetup(request, for: audience(client))
        var device = RegisteredDevice(
            kid: proof.kid, userID: session.user.id, key: proof.key, info: proof.info,
            createdAt: services.clock.now)
        if let attestation, let requirement {
            device.attestation = try await services.attestation?.verify(
                attestation, of: proof.key, named: proof.kid, challenge: request.challenge,
                issuer: services.issuer, under: requirement)
        }
        let added: Void? = try await services.grants.write(for: session) { [services, device] in
            try services.devices.add(device, in: $0)
        }
        guard added != nil else { throw ended }
        return .empty()
    }

    /// Logs the device's user in and ends the device's earlier session.
    private func authenticate(
        _ request: BiometricRequest, _ http: Request, form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let proof = try services.proof(of: http)
        let device = try await services.verifier.verifyAuthentication(
            request, for: audience(client))
        let scopes = form["scope"] == nil ? Scope.deviceDefault : form.words("scope")
        try Scope.validateBiometric(scopes)
        let grant = grant(
            .biometric(device), userID: device.userID, client: client,
            scope: scopes.joined(separator: " "),
            authTime: services.clock.timestamp,
            keyThumbprint: proof?.thumbprint)
        let tokens = firstTokens(of: grant, client)
        guard
            let session = try await services.grants.insert(
                grant, provenBy: .biometric(device), tokens: tokens, keyProof: proof)
        else { throw OAuthError.invalidGrant("InvalidCredentials") }
        return try response(tokens, of: session)
    }

    /// The audience that a request must name.
    private func audience(_ client: ClientConfiguration) throws -> BiometricAudience {
        BiometricAudience(issuer: try services.issuer, clientID: client.id)
    }
}

extension TokenEndpoint {
    /// The easy access grant: a session for the user of a device, with a signature of a
    /// PIN-protected key.
    func easyAccess(
        _ request: Request, _ form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let keyProof = try services.proof(of: request)
        let wanted = form.words("scope")
        let scopes = wanted.isEmpty ? Scope.easyAccessDefault : wanted
        try Scope.validateLogin(scopes)
        let assertion = try lockerAssertion(form)
        let (enrolment, key) = try await services.locker.verifier.verifyEasyAccess(
            assertion, audience: services.issuer)
        return try await answer(
            .easyAccess(enrolment, key), of: enrolment, client: client, keyProof,
            scopes: scopes
        ) {
            try await services.locker.levelShares(of: $0, afterAuthenticationOf: enrolment.userID)?
                .bothReleased
        }
    }

    /// The background access grant: a token with few scopes for a device without its user.
    func backgroundAccess(
        _ request: Request, _ form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let keyProof = try services.proof(of: request)
        let assertion = try lockerAssertion(form)
        let wanted = form.words("scope")
        let scopes = wanted.isEmpty ? Scope.background : wanted
        try Scope.validate(scopes, among: Scope.background)
        let enrolment = try await services.locker.verifier.verifyDevice(
            assertion, for: .backgroundAccess, audience: services.issuer, enrolmentID: nil)
        return try await answer(
            .background(enrolment), of: enrolment, client: client, keyProof, scopes: scopes
        ) {
            try await services.locker.backgroundShare(of: $0)
                .map(LevelShares.released(background:))
        }
    }

    private func lockerAssertion(_ form: FormFields) throws -> LockerRequest {
        guard let assertion = form["assertion"] else {
            throw OAuthError.invalidRequest("assertion is required")
        }
        return try LockerRequest(assertion)
    }

    /// Stores a grant and answers with its tokens.
    ///
    /// - Parameter shares: The shares that the session's enrolment gets.
    private func answer(
        _ proof: GrantProof, of enrolment: LockerEnrolment, client: ClientConfiguration,
        _ keyProof: DPoPProof?, scopes: [String],
        shares: (PermittedEnrolment) async throws -> [String: String]?
    ) async throws -> Response {
        let grant = grant(
            proof, userID: enrolment.userID, client: client, scope: scopes.joined(separator: " "),
            authTime: services.clock.timestamp,
            keyThumbprint: keyProof?.thumbprint)
        let tokens = firstTokens(of: grant, client)
        guard
            let session = try await services.grants.insert(
                grant, provenBy: proof, tokens: tokens, keyProof: keyProof),
            let permitted = session.enrolment
        else { throw OAuthError.invalidGrant("the user may not log in") }
        let released = try await shares(permitted)
        try await services.locker.registry.recordUse(of: enrolment, at: services.clock.now)
        return try response(tokens, of: session, levelShares: released)
    }
}
