import FoundationEssentials
import LatchkeyRelyingParty

/// What a client says about who is to log in: the parameter `login_hint`.
enum LoginHint: Hashable, Sendable {
    /// `?type=login_id&username=NAME`, which fills the form in.
    case username(String)
    /// `?type=user_id&user_id=SUB`, this server's own: only this user may log in.
    case userID(String)

    private static let prefix = "https://authgear.com/login_hint?"

    /// - Throws: ``OAuthError`` in the deployed server's words.
    init(_ text: String, allowingUserID: Bool) throws(OAuthError) {
        guard text.hasPrefix(Self.prefix), let fields = FormFields(text.dropFirst(Self.prefix.count)) else {
            throw .invalidRequest("invalid login_hint: \(text)")
        }
        switch fields["type"] {
        case "login_id":
            guard let name = fields["username"] ?? fields["email"] ?? fields["phone"] else {
                throw .invalidRequest("invalid login_hint: \(text)")
            }
            self = .username(name)
        case "user_id" where allowingUserID:
            guard let id = fields["user_id"] else { throw .invalidRequest("invalid login_hint: \(text)") }
            self = .userID(id)
        case let type:
            throw .invalidRequest("invalid login_hint type: \(type ?? "")")
        }
    }
}
