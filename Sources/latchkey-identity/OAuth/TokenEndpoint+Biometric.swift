import FoundationEssentials
import Hummingbird
import LatchkeyRelyingParty

extension TokenEndpoint {
    /// The biometric grant. What is looked at, and in which order, is a contract with clients: the table in
    /// `authgear.md` section 2.15.
    func biometric(_ form: FormFields, client: ClientConfiguration, bearer: String?) async throws -> Response {
        let configuration = services.configuration
        guard let jwt = form["jwt"] else { throw OAuthError.invalidRequest("jwt is required") }
        guard client.kind != .m2m else {
            throw OAuthError.unauthorizedClient("grant type is not allowed for this client")
        }
        guard !configuration.identity.biometric.disabled else {
            throw OAuthError.invalidRequest("biometric authentication is disabled")
        }
        guard client.kind.isFirstPartyPublic else {
            throw OAuthError.unauthorizedClient("this client may not use biometric authentication")
        }
        let request = try BiometricRequest(jwt)
        return switch request.action {
        case .setup: try await setUp(request, client: client, bearer: bearer)
        case .authenticate: try await authenticate(request, form: form, client: client)
        }
    }

    /// Adds a device to the user of the session.
    private func setUp(
        _ request: BiometricRequest, client: ClientConfiguration, bearer: String?
    ) async throws -> Response {
        guard let session = try await services.session(bearer: bearer), session.grant.hasFullAccess else {
            throw OAuthError(status: 401, "invalid_grant", "biometric setup requires authenticated user")
        }
        // A session of an enrolment ends with it. What it made would not, and would outlive the user's revocation.
        guard session.grant.enrolmentID == nil else { throw OAuthError.insufficientUserAuthentication() }
        guard services.biometricLimit.admit(session.user.id) else { throw OAuthError.rateLimited }
        try requireBiometric()
        let proof = try await services.verifier.verifySetup(request, for: audience(client))
        guard !session.user.isAnonymous else { throw OAuthError.unauthorizedClient("AnonymousUserAddIdentity") }
        let limit = services.configuration.identity.biometric.maximumDevices
        guard try await services.devices.devices(of: session.user.id).count < limit else {
            throw OAuthError.invalidRequest("a user may have at most \(limit) biometric identities")
        }
        try await services.devices.add(
            RegisteredDevice(
                kid: proof.kid, userID: session.user.id, key: proof.key, info: proof.info, createdAt: services.clock.now
            ))
        return .empty
    }

    /// Logs the device's user in. The device's earlier session ends.
    ///
    /// The user's limit is counted here once the signature has told who it is: a stranger can't use it up.
    private func authenticate(
        _ request: BiometricRequest, form: FormFields, client: ClientConfiguration
    ) async throws -> Response {
        let deviceInfo = try deviceInfo(form)
        try requireBiometric()
        let device = try await services.verifier.verifyAuthentication(request, for: audience(client))
        guard services.biometricLimit.admit(device.userID) else { throw OAuthError.rateLimited }
        guard let user = try await services.users.user(id: device.userID), !user.isDisabled else {
            throw OAuthError.serverError
        }
        let scopes = form["scope"] == nil ? Scope.deviceDefault : form.words("scope")
        try Scope.validateBiometric(scopes)
        let grant = grant(
            .biometric(device), user: user, client: client, scope: scopes.joined(separator: " "),
            authTime: services.clock.now.timeIntervalSince1970, deviceInfo: deviceInfo)
        let tokens = try await tokens(for: grant, user: user, client: client)
        _ = try await services.grants.insert(grant, tokens: tokens)
        return try .json(tokens)
    }

    /// What a request must name, where the configuration says so.
    private func audience(_ client: ClientConfiguration) throws -> BiometricAudience? {
        guard services.configuration.extensions.biometricAudience else { return nil }
        return BiometricAudience(issuer: try services.issuer, clientID: client.id)
    }

    private func requireBiometric() throws(OAuthError) {
        guard services.configuration.authentication.allowsBiometric else {
            throw .unauthorizedClient("BiometricDisallowed")
        }
    }
}
