internal import Latchkey

/// The name that the login page contains at the start, so that the user need not type it.
///
/// The user can log in with another name. It has the form of Authgear servers, which refuse any
/// other text in `login_hint`.
public struct LoginHint: Hashable, Sendable {
    /// The parameter `login_hint`.
    package let text: String

    private init(type: String, _ name: String, _ value: String) {
        let query = FormEncoding.encode([("type", type), (name, value)])
        text = "https://authgear.com/login_hint?\(query)"
    }

    /// A user name.
    public static func username(_ name: String) -> LoginHint {
        LoginHint(type: "login_id", "username", name)
    }

    /// An email address.
    public static func email(_ address: String) -> LoginHint {
        LoginHint(type: "login_id", "email", address)
    }

    /// A telephone number in E.164 form, for example `+85221234567`.
    public static func phone(_ number: String) -> LoginHint {
        LoginHint(type: "login_id", "phone", number)
    }

    /// The only user who may log in, for a server that announces `biometric_login_hint_supported`.
    package static func user(id: String) -> LoginHint {
        LoginHint(type: "user_id", "user_id", id)
    }

    /// The user of an app's session, with a token that works once.
    package static func appSession(_ token: String) -> LoginHint {
        LoginHint(type: "app_session_token", "app_session_token", token)
    }
}
