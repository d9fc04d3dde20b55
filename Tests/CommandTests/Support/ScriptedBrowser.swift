import LatchkeySimulators
import LatchkeyTesting

/// A program for `$BROWSER` that fills the login form in, written in Python with nothing but its standard library.
struct ScriptedBrowser {
    let path: String

    init(user: IdentityServer.Announcement.User, in directory: TemporaryDirectory) throws {
        let script = """
            #!/usr/bin/env python3
            import http.cookiejar, sys, urllib.parse, urllib.request
            from html.parser import HTMLParser

            class Form(HTMLParser):
                def __init__(self):
                    super().__init__()
                    self.fields, self.action = {}, ""
                def handle_starttag(self, tag, attributes):
                    attributes = dict(attributes)
                    if tag == "form":
                        self.action = attributes.get("action", "")
                    if tag == "input" and "name" in attributes:
                        kind = attributes.get("type", "text")
                        value = {"password": PASSWORD, "text": USERNAME, "email": USERNAME}.get(kind)
                        self.fields[attributes["name"]] = value or attributes.get("value", "")

            USERNAME, PASSWORD = \(Self.literal(user.username)), \(Self.literal(user.password))
            opener = urllib.request.build_opener(
                urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), urllib.request.ProxyHandler({}))
            page = opener.open(sys.argv[1], timeout=20)
            form = Form()
            form.feed(page.read().decode())
            target = urllib.parse.urljoin(page.url, form.action)
            origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlparse(target))
            request = urllib.request.Request(
                target, urllib.parse.urlencode(form.fields).encode(), {"Origin": origin})
            opener.open(request, timeout=20).read()
            """
        path = try directory.makeScript("browser-\(UInt32.random(in: 0 ... .max))", "\(script)\n")
    }

    private static func literal(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}
