import Hummingbird
import Latchkey

/// What a browser's cookies say.
struct BrowserCookies: Sendable {
    static let sessionName = "latchkey_session"

    let session: String?
    let form: String?

    init(_ request: Request) {
        let cookies = request.cookies
        session = cookies[Self.sessionName]?.value
        // A cookie that this server did not make is not answered with a form that it would pass.
        form = cookies[FormGuard.cookieName].flatMap { Base64URL.decode($0.value)?.count == 32 ? $0.value : nil }
    }
}
