internal import Crypto
internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey

/// Decides the reply to each request that reaches the loopback port of one login.
struct RedirectResponder: Sendable {
    let link: OneTimeLink
    /// The URL of the login page.
    let page: String
    /// Whether the page's URL contains a secret, so that only a program that is certainly this
    /// user's gets it.
    var isSecret = false
    /// Parses the query of a request; nil if it is not a response to the authorization request.
    let accept: @Sendable (_ query: String) -> AuthorizationAnswer?
    let notices: LoopbackNotices
    /// Ends the login. Only the first call has an effect.
    let end: @Sendable (AuthorizationAnswer) -> Void

    /// - Parameter isKnown: Whether the client is certainly a program of this user; false if
    ///   unknown. Connections of other users are closed before they get here.
    func reply(to request: RequestLine, fromKnownUser isKnown: Bool) -> RedirectReply {
        let parts = request.target.split(
            separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let isStart = link.leads(from: parts[0])
        guard isStart || parts[0] == LoopbackListener.path else { return .notFound }
        guard request.method == "GET" else { return .notAllowed }
        guard !isStart else { return start(forKnownUser: isKnown) }
        guard parts.count == 2, !parts[1].isEmpty else {
            notices.add(.noQuery)
            return .noQuery
        }
        guard let answer = accept(String(parts[1])) else {
            if let notice = LoopbackNotice(refused: String(parts[1])) { notices.add(notice) }
            return .refused
        }
        end(answer)
        return .done
    }

    /// The user's own programs may open the link any number of times, for example in a second
    /// browser. Where the system does not show which user a program belongs to, only the first
    /// request is redirected; a second ends the login. A secret page is then not shown.
    func start(forKnownUser isKnown: Bool) -> RedirectReply {
        guard isKnown || !isSecret else {
            notices.add(.unknownUser)
            return .unknownUser
        }
        guard isKnown || link.use() else {
            end(.failure(.linkReused))
            return .linkReused
        }
        return .seeOther(page)
    }
}

/// A page or redirect of the loopback port.
struct RedirectReply: Equatable {
    let status: HTTPResponse.Status
    let location: String?
    private let heading: String
    private let text: String
    private let script: String?

    private init(
        _ status: HTTPResponse.Status, location: String? = nil, _ heading: String, _ text: String,
        script: String? = nil
    ) {
        self.status = status
        self.location = location
        self.heading = heading
        self.text = text
        self.script = script
    }

    /// A redirect to this URL.
    static func seeOther(_ url: String) -> RedirectReply {
        RedirectReply(
            .seeOther, location: url, "The login page has another address",
            "Your browser should have opened it.")
    }

    static let done = RedirectReply(
        .ok, "You can close this window", "The program that opened this page continues.")
    static let refused = RedirectReply(
        .badRequest, "Unexpected response", "This is not the response that the program waits for.")
    /// The answer of a server that answers in the fragment (`response_mode=fragment`) is only in the
    /// browser, and the page passes it on. It then has to have the right `state`, as any other.
    static let noQuery = RedirectReply(
        .badRequest, "The server’s answer is missing",
        "The address of this page has no answer to the login. Go back to the program, which says what you can do.",
        script:
            #"if (location.hash.length > 1) location.replace(location.pathname + "?" + location.hash.slice(1))"#
    )
    static let linkReused = RedirectReply(
        .gone, "The login was stopped",
        "This link works once and was opened before. If you did not open it, another user tried to use your login."
    )
    static let unknownUser = RedirectReply(
        .forbidden, "The page was not opened",
        "The system does not show which user opened this link, and the page's address is secret.")
    static let notFound = RedirectReply(
        .notFound, "Page not found", "This address is only for one login.")
    static let notAllowed = RedirectReply(
        .methodNotAllowed, "Method not allowed", "This address is only for one login.")

    private static let style = """
        :root { color-scheme: light dark; --ink: #1c2430; --line: #d9dee6; --paper: #fff; --back: #f3f5f8 }
        @media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --line: #313a46; --paper: #1a2029; \
        --back: #12161c } }
        body { margin: 0; padding: 8vh 16px 32px; background: var(--back); color: var(--ink); \
        font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif }
        main { box-sizing: border-box; max-width: 460px; margin: auto; padding: 28px; background: var(--paper); \
        border: 1px solid var(--line); border-radius: 12px }
        h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px }
        p { margin: 0 }
        """
    private static let styleSource = source(of: style)

    /// The source that permits an element with this text (CSP Level 3, section 2.3.1).
    private static func source(of text: String) -> String {
        "'sha256-\(Data(SHA256.hash(data: Data(text.utf8))).base64EncodedString())'"
    }

    /// The response.
    var message: [UInt8] {
        let page = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(heading)</title><style>\(Self.style)</style></head>
            <body><main><h1>\(heading)</h1><p>\(text)</p></main>\(script.map { "<script>\($0)</script>" } ?? "")</body></html>

            """
        var lines = [
            "HTTP/1.1 \(status)", "Content-Type: text/html; charset=utf-8",
            "Content-Length: \(page.utf8.count)",
            "Content-Security-Policy: default-src 'none'; style-src \(Self.styleSource)"
                + (script.map { "; script-src \(Self.source(of: $0))" } ?? ""),
            "Referrer-Policy: no-referrer", "Cache-Control: no-store", "Connection: close",
        ]
        if let location { lines.append("Location: \(location)") }
        return Array((lines + ["", page]).joined(separator: "\r\n").utf8)
    }
}
