import Crypto
import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

extension Page {
    /// - Parameter redirectURI: Where a form on the page can redirect to, in addition to this
    ///   server. Browsers apply the page's `form-action` policy to redirects.
    func response(
        status: HTTPResponse.Status = .ok, mayLeadTo redirectURI: RedirectURI? = nil
    ) -> Response {
        let layout: HTML = """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(title) · Latchkey</title>
            <style>\(HTML(stringLiteral: Stylesheet.css))</style>
            </head>
            <body>
            <header><span class="mark" aria-hidden="true"></span><span>Latchkey</span></header>
            <main>
            \(content)
            </main>
            </body>
            </html>
            """
        let target = redirectURI.map { " \($0.contentSecuritySource)" } ?? ""
        var response = Response(
            status: status,
            headers: [
                .contentType: "text/html; charset=utf-8",
                .cacheControl: "no-store",
                .contentSecurityPolicy:
                    "default-src 'none'; style-src 'sha256-\(Stylesheet.hash)'; form-action 'self'\(target); "
                    + "frame-ancestors 'none'; base-uri 'none'",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: layout.text)))
        response.headers[named: "Referrer-Policy"] = "same-origin"
        response.headers[named: "X-Frame-Options"] = "DENY"
        return response
    }
}

/// The pages' style. Its hash is in their content security policy.
enum Stylesheet {
    static let hash = Data(SHA256.hash(data: Data(css.utf8))).base64EncodedString()
    static let css = """
        :root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee6; --paper: #fff; \
        --back: #f3f5f8; --key: #1f6f5c; --keyink: #fff; --bad: #a32a2a; --badback: #fbeeee; --note: #eef5f3 }
        @media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #313a46; \
        --paper: #1a2029; --back: #12161c; --key: #58b79e; --keyink: #0c1512; --bad: #f09a9a; --badback: #3a2224; \
        --note: #1d2f2b } }
        * { box-sizing: border-box }
        body { margin: 0; min-height: 100vh; background: var(--back); color: var(--ink); \
        font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; display: flex; \
        flex-direction: column; align-items: center; padding: 8vh 16px 32px }
        header { display: flex; align-items: center; gap: 10px; font-weight: 600; letter-spacing: .02em; \
        margin-bottom: 20px; color: var(--soft) }
        .mark { width: 12px; height: 20px; border: 3px solid var(--key); border-radius: 8px 8px 3px 3px }
        main { width: 100%; max-width: 460px; background: var(--paper); border: 1px solid var(--line); \
        border-radius: 12px; padding: 28px }
        h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px }
        p { margin: 0 0 16px }
        .lead, .empty { color: var(--soft) }
        .lead strong { color: var(--ink) }
        .problem { background: var(--badback); color: var(--bad); border-radius: 8px; padding: 10px 12px }
        .note { background: var(--note); border-radius: 8px; padding: 10px 12px }
        .back { margin-bottom: 12px }
        a { color: var(--key) }
        label { display: block; font-weight: 600; margin: 14px 0 6px }
        input:not([type=hidden]) { width: 100%; font: inherit; color: inherit; background: var(--back); \
        border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px }
        input:focus-visible, button:focus-visible, a:focus-visible { outline: 3px solid var(--key); outline-offset: 2px }
        .actions { display: flex; gap: 10px; margin-top: 22px }
        button, a.button { font: inherit; font-weight: 600; border: 1px solid transparent; border-radius: 8px; \
        padding: 9px 18px; background: var(--key); color: var(--keyink); cursor: pointer }
        a.button { text-decoration: none }
        button.quiet, a.quiet { background: none; border-color: var(--line); color: var(--ink) }
        button.danger { background: none; border-color: var(--line); color: var(--bad); padding: 6px 12px }
        summary { cursor: pointer; color: var(--bad); text-align: right }
        summary:focus-visible { outline: 3px solid var(--key); outline-offset: 2px }
        details p { margin: 6px 0; max-width: 180px; font-size: .85rem }
        .list { list-style: none; margin: 0; padding: 0 }
        .row { display: flex; justify-content: space-between; align-items: center; gap: 16px; padding: 14px 0; \
        border-top: 1px solid var(--line); color: inherit; text-decoration: none }
        .row strong, .row small { display: block; overflow-wrap: anywhere }
        small { color: var(--soft) }
        .kid { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .72rem }
        .arrow { color: var(--soft); font-size: 1.4rem }
        """
}
