import FoundationEssentials
import Latchkey
import Testing

@testable import latchkey_identity

@Suite("The login page") struct LoginPageTests {
    /// The fields and named buttons of each form, as a simple HTML client sends them.
    private static func forms(_ page: Answer) -> [[String: String]] {
        page.body.split(separator: "<form ").dropFirst().map { form in
            let controls = form.prefix(
                upTo: form.firstRange(of: "</form>")?.lowerBound ?? form.endIndex
            )
            .matches(of: /<(?:input|button) [^>]*?name="([^"]*)"(?:[^>]*? value="([^"]*)")?/)
            return Dictionary(controls.map { (String($0.1), String($0.2 ?? "")) }) { $1 }
        }
    }

    @Test func `sending all named controls of the login form logs in`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            let path = AuthorizationParameters().path
            var form = try #require(
                Self.forms(await browser.get(path)).first { $0["password"] != nil })
            #expect(form["action"] == nil)
            form["username"] = "alice"
            form["password"] = TestServer.password
            let answer = try await browser.post(path, form)
            #expect(try answer.redirectParameter("code") != nil)
        }
    }

    @Test func `Cancel is a link, and the page has one form with one button`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            let path = AuthorizationParameters().path
            let page = try await browser.get(path)
            #expect(Self.forms(page).count == 1)
            #expect(page.body.components(separatedBy: "<button").count == 2)
            #expect(page.body.contains(#"&amp;x_cancel=1">Cancel</a>"#))
            #expect(
                try await browser.get(path + "&x_cancel=1").redirectParameter("error") == "cancel")
        }
    }

    @Test func `without an app to return to, the page has no Cancel`() async throws {
        try await TestServer.run { server in
            let page = try await TestBrowser(server: server).get("/login")
            #expect(Self.forms(page).count == 1)
            #expect(!page.body.contains("cancel"))
        }
    }
}
