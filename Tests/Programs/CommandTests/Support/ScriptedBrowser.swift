import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A Python program for `$BROWSER` that fills in the login form.
struct ScriptedBrowser {
    let path: String

    init(user: IdentityProcess.User, in directory: TemporaryDirectory) throws {
        let script = """
            #!/usr/bin/env python3
            import http.cookiejar, sys, urllib.parse, urllib.request
            from html.parser import HTMLParser

            USERNAME, PASSWORD = \(Self.literal(user.username)), \(Self.literal(user.password))

            class Form(HTMLParser):
                # The last form of the page, filled in.
                def __init__(self, text):
                    super().__init__()
                    self.fields, self.action = {}, ""
                    self.feed(text)
                def handle_starttag(self, tag, attributes):
                    attributes = dict(attributes)
                    if tag == "form":
                        self.fields, self.action = {}, attributes.get("action", "")
                    if tag == "input" and "name" in attributes:
                        kind = attributes.get("type", "text")
                        value = {"password": PASSWORD, "text": USERNAME, "email": USERNAME}.get(kind)
                        self.fields[attributes["name"]] = value or attributes.get("value", "")

            opener = urllib.request.build_opener(
                urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), urllib.request.ProxyHandler({}))

            def submit(url):
                page = opener.open(url, timeout=300)
                form = Form(page.read().decode())
                target = urllib.parse.urljoin(page.url, form.action)
                origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlparse(target))
                opener.open(urllib.request.Request(
                    target, urllib.parse.urlencode(form.fields).encode(), {"Origin": origin}), timeout=300).read()

            if sys.argv[1] == "--remove-device":
                submit(sys.argv[2] + "/login")
                submit(sys.argv[2] + "/settings/biometric")
            else:
                submit(sys.argv[1])
            """
        path = try directory.makeScript("browser-\(UInt32.random(in: 0 ... .max))", "\(script)\n")
    }

    /// Logs in on the settings page and removes the user's last device there.
    func removeDevice(at endpoint: String) async throws {
        try await program(path, ["--remove-device", endpoint])
    }

    private static func literal(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}
