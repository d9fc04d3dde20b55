import Hummingbird
import Logging

/// The form with a user name and a password, on the authorization and the settings pages.
final class LoginForm: Sendable {
    /// The reason why a login failed.
    enum Problem: Error {
        case expired
        case wrongPassword
        case wrongUser
        case throttled
        /// Too many passwords wait for their check.
        case busy

        var status: HTTPResponse.Status {
            switch self {
            case .throttled: .tooManyRequests
            case .busy: .serviceUnavailable
            default: .forbidden
            }
        }

        /// Seconds until the user can try again; nil for at once.
        var retryAfter: Int? {
            switch self {
            case .throttled: Int(PasswordAttempts.period.components.seconds)
            case .busy: PasswordHasher.retryAfter
            default: nil
            }
        }

        var text: String {
            switch self {
            case .expired: "This page was open for too long. Please try again."
            case .wrongPassword: "The user name or the password is wrong."
            case .wrongUser:
                "This device is set up for another account. Log in with that one, or disable biometric login in the app first."
            case .throttled: "There were too many attempts. Please wait 5 minutes and try again."
            case .busy: "The server is busy. Please try again in a few seconds."
            }
        }
    }

    private let services: IdentityServices
    private let attempts = PasswordAttempts()

    init(services: IdentityServices) { self.services = services }

    /// Checks a user name and a password.
    ///
    /// - Parameter pinnedUserID: The only user who may log in; nil for any.
    func check(
        _ form: FormFields, context: IdentityContext, pinnedUserID: String? = nil
    ) async throws -> Result<User, Problem> {
        guard
            let username = form["username"], UserStore.isValid(username: username),
            let password = form["password"], password.utf8.count <= 256
        else { return .failure(.wrongPassword) }
        let found = try await services.users.user(named: username)
        let name = User.key(username)
        // Counted before the check, so that parallel attempts do not exceed the limit.
        guard attempts.begin(name) else { return .failure(.throttled) }
        let user: User?
        do {
            user = try await services.users.authenticate(found, password: password)
        } catch is PasswordHasher.Busy {
            attempts.withdraw(name)
            return .failure(.busy)
        }
        guard let user else {
            context.logger.notice("login failed")
            return .failure(.wrongPassword)
        }
        attempts.forget(name)
        guard pinnedUserID == nil || pinnedUserID == user.id else { return .failure(.wrongUser) }
        return .success(user)
    }

    /// Starts a session of the browser and sets its cookie in the response.
    func start(_ user: User, _ cookies: BrowserCookies, _ response: Response) async throws
        -> Response
    {
        var response = response
        let session = try await services.sessions.start(for: user, replacing: cookies.session)
        response.setCookie(services.cookie(.session, session))
        return response
    }

    func page(
        action: String, purpose: FormGuard.Purpose, cookies: BrowserCookies,
        clientName: String? = nil,
        username: String?, isPinned: Bool = false, mayLeadTo redirectURI: RedirectURI? = nil,
        problem: Problem?
    ) -> Response {
        var response = services.show(
            .login(
                action: action, token: services.forms.token(cookies, for: purpose),
                clientName: clientName, username: username, isPinned: isPinned,
                canCancel: redirectURI != nil, problem: problem?.text),
            to: cookies, status: problem?.status ?? .ok, mayLeadTo: redirectURI)
        response.headers[.retryAfter] = problem?.retryAfter.map(String.init)
        return response
    }
}
