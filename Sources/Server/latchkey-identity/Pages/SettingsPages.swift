import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import Logging

/// The pages on which a user manages the account's devices.
struct SettingsPages: Sendable {
    let services: IdentityServices
    let login: LoginForm

    func showLogin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let cookies = services.cookies(of: request)
        if try await services.session(cookies) != nil { return .seeOther("/settings") }
        return loginPage(cookies)
    }

    func submitLogin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let form = try await request.form()
        let cookies = services.cookies(of: request)
        guard services.forms.accepts(form, cookies, for: .login) else {
            return loginPage(cookies, problem: .expired)
        }
        switch try await login.check(form, context: context) {
        case .failure(let problem):
            return loginPage(cookies, username: form["username"], problem: problem)
        case .success(let user):
            return try await login.start(user, cookies, .seeOther("/settings"))
        }
    }

    func logout(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let form = try await request.form()
        let cookies = services.cookies(of: request)
        guard services.forms.accepts(form, cookies, for: .settings) else { return forgery }
        return try await services.logOut(cookies, Page.loggedOut.response())
    }

    func showSettings(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await withUser(request) { user, token in
            let count = try await services.devices.devices(of: user.id).count
            let enrolments = try await services.locker.registry.enrolments(of: user.id).count
            var lists: [(DeviceList, count: Int)] = []
            if services.configuration.identity.biometric.listEnabled {
                lists.append((.biometric, count))
            }
            lists.append((.locker, enrolments))
            return .settings(username: user.username, lists: lists, token: token)
        }
    }

    /// The list of devices. It is always available; the configuration only decides whether the
    /// settings page links to it.
    func showBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await showDevices(.biometric, request) { user in
            try await services.devices.devices(of: user.id).map {
                DeviceList.Device(
                    id: $0.id, model: $0.info.model, name: $0.info.name,
                    details: "added \(Self.day($0.createdAt))",
                    proof: proof([("Login", $0.attestation)]), label: $0.kid.rawValue,
                    spokenName: $0.info.model)
            }
        }
    }

    /// Removes a device: `x_action=remove`, `x_device_id` (``DeviceRevocation``).
    func removeBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await revoke(.biometric, "biometric identity removed", request, context)
    }

    /// The list of enrolled devices.
    func showLocker(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await showDevices(.locker, request) { user in
            try await services.locker.registry.enrolments(of: user.id).map {
                let client = services.configuration.client(id: $0.clientID)?.name ?? $0.clientID
                let lastUse = $0.lastUsedAt.map { "last used \(Self.minute($0))" } ?? "not used yet"
                let shortID = String($0.id.prefix(8))
                return DeviceList.Device(
                    id: $0.id, model: $0.info.model, name: $0.info.name,
                    details: "\(client) · enrolled \(Self.day($0.createdAt))",
                    use:
                        "\(lastUse) · \($0.easyAccessKeys.isEmpty ? "without" : "with") easy access",
                    proof: proof(
                        [("Device", $0.deviceKey.attestation)]
                            + $0.easyAccessKeys.map { ("Easy access", $0.attestation) }),
                    label: shortID, spokenName: "\($0.info.model), \(shortID)")
            }
        }
    }

    /// Revokes an enrolment: `x_action=revoke`, `x_device_id` (``DeviceRevocation``). The device
    /// can no longer open its locker.
    ///
    /// A session that an app opened cannot: it proves a refresh token only, and the data would be
    /// lost.
    func revokeEnrolment(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await revoke(.locker, "enrolment revoked", request, context)
    }

    private func showDevices(
        _ list: DeviceList, _ request: Request,
        _ devices: (User) async throws -> [DeviceList.Device]
    ) async throws -> Response {
        try await withUser(request) { user, token in
            .devices(
                list, try await devices(user), username: user.username,
                notice: request.uri.query == list.done ? "The device was \(list.done)." : nil,
                token: token)
        }
    }

    /// Handles the form of a list's device.
    private func revoke(
        _ list: DeviceList, _ event: Logger.Message, _ request: Request, _ context: IdentityContext
    ) async throws -> Response {
        let form = try await request.form()
        let cookies = services.cookies(of: request)
        guard let session = try await services.session(cookies) else { return .seeOther("/login") }
        guard services.forms.accepts(form, cookies, for: .settings) else { return forgery }
        guard session.grantID == nil || !list.needsLogin else { return loginNeeded }
        guard form["x_action"] == list.action, let id = form[DeviceList.member] else {
            throw OAuthError.invalidRequest("x_action and \(DeviceList.member) are required")
        }
        guard
            let isRemoved = try await services.revocation.revoke(
                id, list.kind, requestedIn: session)
        else { return .seeOther("/login") }
        guard isRemoved else {
            return Page.message(
                title: "Device not found",
                text: "The device was \(list.done) already, or it is not yours."
            ).response(status: .notFound)
        }
        context.logger.notice(event, metadata: ["device": "\(id)"])
        return .seeOther("\(list.path)?\(list.done)")
    }

    /// Shows a page to the logged-in user, with the token for its forms.
    private func withUser(
        _ request: Request, _ page: (User, _ formToken: String) async throws -> Page
    ) async throws -> Response {
        let cookies = services.cookies(of: request)
        guard let session = try await services.session(cookies) else { return .seeOther("/login") }
        return services.show(
            try await page(session.user, services.forms.token(cookies, for: .settings)), to: cookies
        )
    }

    /// The proofs of a device's keys in words. nil if the server does not support attestation and
    /// stored none.
    private func proof(_ keys: [(name: String, record: AttestationRecord?)]) -> String? {
        guard services.attestation != nil || keys.contains(where: { $0.record != nil }) else {
            return nil
        }
        return keys.map { key in
            guard let record = key.record else { return "\(key.name): no proof of hardware" }
            let day = Self.day(Date(timeIntervalSince1970: record.time))
            return "\(key.name): \(record.text) (proven \(day))"
        }.joined(separator: " · ")
    }

    private static func day(_ date: Date) -> String {
        date.formatted(.iso8601.year().month().day().dateSeparator(.dash))
    }

    private static func minute(_ date: Date) -> String {
        "\(day(date)) \(date.formatted(.iso8601.time(includingFractionalSeconds: false)).prefix(5)) UTC"
    }

    private var loginNeeded: Response {
        Page.message(
            title: "Log in to revoke a device",
            text:
                "An app opened this page. Log out on the settings page, log in, and revoke the device again."
        ).response(status: .forbidden)
    }

    private var forgery: Response {
        Page.message(
            title: "Could not submit the form",
            text:
                "The page was open for too long, or another site sent the form. Go back and try again."
        ).response(status: .forbidden)
    }

    private func loginPage(
        _ cookies: BrowserCookies, username: String? = nil, problem: LoginForm.Problem? = nil
    ) -> Response {
        login.page(
            action: "/login", purpose: .login, cookies: cookies, username: username,
            problem: problem)
    }
}
