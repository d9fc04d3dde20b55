import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import Logging

/// The pages on which a user manages the account's devices.
struct SettingsPages: Sendable {
    private static let loginPurpose = "login"
    static let settingsPurpose = "settings"

    let services: IdentityServices
    let login: LoginForm

    func showLogin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        let cookies = services.cookies(of: request)
        if try await services.session(cookies) != nil { return .seeOther("/settings") }
        return loginPage(cookies)
    }

    func submitLogin(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        let form = try await request.form(context)
        let cookies = services.cookies(of: request)
        guard accepts(form, cookies, Self.loginPurpose) else { return loginPage(cookies, problem: .expired) }
        switch try await login.check(form, context: context) {
        case .failure(let problem): return loginPage(cookies, username: form["username"], problem: problem)
        case .success(let user):
            let session = try await services.sessions.start(for: user, replacing: cookies.session)
            var response = Response.seeOther("/settings")
            response.setCookie(services.cookie(.session, session))
            return response
        }
    }

    func logout(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        let form = try await request.form(context)
        let cookies = services.cookies(of: request)
        guard accepts(form, cookies, Self.settingsPurpose) else { return forgery }
        if let session = cookies.session { try await services.sessions.end(session) }
        var response = services.pages.message(title: "Logged out", text: "You are logged out of this browser.")
        response.setCookie(services.cookie(.session, "", maxAge: 0))
        return response
    }

    func showSettings(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await withUser(request) { user, token in
            let count = try await services.devices.devices(of: user.id).count
            let enrolments = try await services.locker?.registry.enrolments(of: user.id).count
            return SettingsPage(
                username: user.username, showsBiometric: services.configuration.identity.biometric.listEnabled,
                deviceCount: Self.devices(count), showsLocker: enrolments != nil,
                enrolmentCount: Self.devices(enrolments ?? 0),
                token: token)
        }
    }

    /// The list of devices. It is always available; the configuration only decides whether the settings page links to
    /// it.
    func showBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await withUser(request) { user, token in
            let devices = try await services.devices.devices(of: user.id)
            return BiometricPage(
                username: user.username,
                devices: devices.map {
                    BiometricPage.Device(
                        id: $0.id, model: $0.info.model, name: $0.info.name, kid: $0.kid.rawValue,
                        day: Self.day($0.createdAt))
                },
                notice: request.uri.query == "removed" ? "The device was removed." : nil,
                token: token,
                hasNone: devices.isEmpty)
        }
    }

    /// Removes a device: `x_action=remove`, `x_identity_id`. Its sessions continue, as on deployed Authgear servers.
    func removeBiometric(_ request: Request, _ context: IdentityContext) async throws -> Response {
        try await withForm(request, context) { user, form in
            guard form["x_action"] == "remove", let id = form["x_identity_id"] else {
                throw OAuthError.invalidRequest("x_action and x_identity_id are required")
            }
            guard
                let device = try await services.devices.devices(of: user.id).first(where: { $0.id == id }),
                try await services.devices.remove(kid: device.kid, of: user.id) != nil
            else {
                return services.pages.message(
                    title: "Device not found", text: "The device was removed already, or it is not yours.",
                    status: .notFound)
            }
            context.logger.notice("biometric identity removed", metadata: ["identity": "\(id)"])
            return .seeOther("/settings/biometric?removed")
        }
    }

    /// Shows a page to the logged-in user, with the token for its forms.
    func withUser<P: Page>(
        _ request: Request, _ page: (User, _ formToken: String) async throws -> P
    ) async throws -> Response {
        let cookies = services.cookies(of: request)
        guard let session = try await services.session(cookies) else { return .seeOther("/login") }
        let cookie = cookies.form ?? services.forms.newCookie()
        let token = services.forms.token(cookie: cookie, session: cookies.session, purpose: Self.settingsPurpose)
        var response = services.pages.render(try await page(session.user, token))
        if cookies.form == nil { response.setCookie(services.cookie(.form, cookie)) }
        return response
    }

    /// Handles a form of these pages for the logged-in user.
    func withForm(
        _ request: Request, _ context: IdentityContext, _ answer: (User, FormFields) async throws -> Response
    ) async throws -> Response {
        var request = request
        let form = try await request.form(context)
        let cookies = services.cookies(of: request)
        guard let session = try await services.session(cookies) else { return .seeOther("/login") }
        guard accepts(form, cookies, Self.settingsPurpose) else { return forgery }
        return try await answer(session.user, form)
    }

    static func day(_ date: Date) -> String {
        date.formatted(.iso8601.year().month().day().dateSeparator(.dash))
    }

    static func minute(_ date: Date) -> String {
        "\(day(date)) \(date.formatted(.iso8601.time(includingFractionalSeconds: false)).prefix(5)) UTC"
    }

    private static func devices(_ count: Int) -> String {
        count == 1 ? "1 device" : "\(count) devices"
    }

    func accepts(_ form: FormFields, _ cookies: BrowserCookies, _ purpose: String) -> Bool {
        services.forms.accepts(
            form[FormGuard.fieldName], cookie: cookies.form, session: cookies.session, purpose: purpose)
    }

    var forgery: Response {
        services.pages.message(
            title: "Could not submit the form",
            text: "The page was open for too long, or another site sent the form. Go back and try again.",
            status: .forbidden)
    }

    private func loginPage(
        _ cookies: BrowserCookies, username: String? = nil, problem: LoginForm.Problem? = nil
    ) -> Response {
        login.page(
            action: "/login", purpose: Self.loginPurpose, cookies: cookies, clientName: nil, username: username,
            problem: problem)
    }
}

extension SettingsPages {
    /// The list of enrolled devices.
    func showLocker(_ request: Request, _ locker: LockerServices) async throws -> Response {
        try await withUser(request) { user, token in
            let enrolments = try await locker.registry.enrolments(of: user.id)
            return LockerPage(
                username: user.username,
                devices: enrolments.map {
                    LockerPage.Device(
                        id: $0.id, model: $0.info.model, name: $0.info.name,
                        client: services.configuration.client(id: $0.clientID)?.name ?? $0.clientID,
                        shortID: String($0.id.prefix(8)),
                        easyAccess: $0.easyAccessKeys.isEmpty ? "without easy access" : "with easy access",
                        day: Self.day($0.createdAt),
                        lastUse: $0.lastUsedAt.map { "last used \(Self.minute($0))" } ?? "not used yet")
                },
                notice: request.uri.query == "revoked" ? "The device was revoked." : nil,
                token: token,
                hasNone: enrolments.isEmpty)
        }
    }

    /// Revokes an enrolment: `x_action=revoke`, `x_enrolment_id`. The device can no longer open its locker, and its
    /// easy access and background sessions end.
    func revokeEnrolment(
        _ request: Request, _ context: IdentityContext, _ locker: LockerServices
    ) async throws -> Response {
        try await withForm(request, context) { user, form in
            guard form["x_action"] == "revoke", let id = form["x_enrolment_id"] else {
                throw OAuthError.invalidRequest("x_action and x_enrolment_id are required")
            }
            guard
                try await locker.registry.enrolments(of: user.id).contains(where: { $0.id == id }),
                try await locker.registry.remove(id: id)
            else {
                return services.pages.message(
                    title: "Device not found", text: "The device was revoked already, or it is not yours.",
                    status: .notFound)
            }
            context.logger.notice("enrolment revoked", metadata: ["enrolment": "\(id)"])
            return .seeOther("/settings/locker?revoked")
        }
    }
}
