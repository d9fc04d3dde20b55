import Latchkey
import LatchkeyOAuth

/// A browser that logs in on the server's page.
struct LoginBrowser: Browser {
    let username: String
    let password: String

    func open(_ url: String) async throws {
        try Program(name: "python3").run(["-c", Self.script, url, username, password])
    }

    private static let script = """
        import html, re, sys
        from http.cookiejar import CookieJar
        from urllib.parse import urlencode, urljoin
        from urllib.request import HTTPCookieProcessor, Request, build_opener
        url, username, password = sys.argv[1:]
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        page = opener.open(url)
        form = re.search(r'<form method="post" action="([^"]*)">(.*?)</form>', page.read().decode(), re.S)
        target = urljoin(page.url, html.unescape(form[1]))
        fields = {"username": username, "password": password, "action": "login"}
        for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form[2]):
            fields[name] = html.unescape(value)
        origin = "/".join(target.split("/")[:3])
        opener.open(Request(target, urlencode(fields).encode(), {"Origin": origin})).read()
        """
}
