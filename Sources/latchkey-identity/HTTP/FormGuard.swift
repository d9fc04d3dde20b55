import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// Keeps other sites from sending this server's forms in a user's name.
///
/// The browser holds a random cookie; each form holds a MAC over that cookie, the session and the form's purpose. Another
/// site can make the browser send the cookie, but can't know the MAC.
struct FormGuard: Sendable {
    static let fieldName = "csrf_token"

    private let key: SymmetricKey
    private let random: RandomSource

    init(key: Data, random: RandomSource) {
        self.key = SymmetricKey(data: key)
        self.random = random
    }

    /// A value for the cookie of a browser that has none.
    func newCookie() -> String { OpaqueToken.bytes(random) }

    /// The token to put into a form.
    func token(cookie: String, session: String?, purpose: String) -> String {
        Base64URL.encode(Data(code(cookie, session, purpose)))
    }

    /// Whether a form came from a page of this server that this browser was shown.
    func accepts(_ token: String?, cookie: String?, session: String?, purpose: String) -> Bool {
        guard let token, let cookie, let bytes = Base64URL.decode(token) else { return false }
        return constantTimeEqual(bytes, Data(code(cookie, session, purpose)))
    }

    private func code(_ cookie: String, _ session: String?, _ purpose: String) -> HMAC<SHA256>.MAC {
        HMAC<SHA256>.authenticationCode(for: Data("\(purpose)\n\(cookie)\n\(session ?? "")".utf8), using: key)
    }
}
