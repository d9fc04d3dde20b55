import Foundation
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyTestSupport
import Logging
import ServiceLifecycle
import Testing

@testable import latchkey_identity

@Suite("In a browser") struct BrowserTests {
    /// The folder for screenshots: `$LATCHKEY_SCREENSHOTS`, or a temporary folder.
    private static var pictures: URL {
        get throws {
            let directory =
                ProcessInfo.processInfo.environment["LATCHKEY_SCREENSHOTS"].map {
                    URL(filePath: $0)
                }
                ?? FileManager.default.temporaryDirectory.appending(path: "latchkey-screenshots")
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            return directory
        }
    }

    @Test(.enabled(if: Chromium.isAvailable, "needs chromium and chromium-driver"))
    func `a user logs in, views the devices and removes one`() async throws {
        let pictures = try Self.pictures
        try await TestServer.run {
            $0.identity.biometric.listEnabled = true
            $0.clients[0].name = "Example Bank"
        } body: { server in
            try await Self.withCallbackPage { callback in
                var request = AuthorizationParameters()
                request.redirectURI = callback
                try await Chromium.run { [request] browser in
                    try await browser.open(server.origin + request.path)
                    #expect(try await browser.text(of: "main").contains("Example Bank"))
                    try await browser.screenshot(to: pictures.appending(path: "1-login.png"))

                    try await browser.type("alice", into: "#username")
                    try await browser.type("not my password", into: "#password")
                    try await browser.click("button:not(.quiet)")
                    #expect(try await browser.text(of: "[role=alert]").contains("wrong"))
                    try await browser.screenshot(
                        to: pictures.appending(path: "2-wrong-password.png"))

                    try await browser.type(TestServer.password, into: "#password")
                    try await browser.click("button:not(.quiet)")
                    let address = try await browser.waitForAddress { $0.hasPrefix(callback) }
                    #expect(try await browser.text(of: "body") == "You may close this window.")
                    let code = try #require(
                        URLComponents(string: address)?.queryItems?.first { $0.name == "code" }?
                            .value)
                    let tokens = try Tokens(await server.exchange(code: code, request).success())

                    let (kept, removed) = (TestDevice(), TestDevice())
                    try await server.setUp(removed, bearer: tokens.access).success()
                    server.time.advance(by: 1)
                    try await server.setUp(kept, bearer: tokens.access).success()

                    try await browser.open(server.origin + "/settings")
                    try await browser.type("alice", into: "#username")
                    try await browser.type(TestServer.password, into: "#password")
                    try await browser.click("button")
                    _ = try await browser.text(of: "a[href='/settings/biometric']")
                    #expect(try await browser.text(of: "main").contains("2 devices"))
                    try await browser.screenshot(to: pictures.appending(path: "3-settings.png"))
                    try await browser.click("a[href='/settings/biometric']")
                    // The click may return before the next page, which has this list, has loaded.
                    _ = try await browser.text(of: "summary")
                    #expect(try await browser.text(of: "main").contains(removed.kid))
                    try await browser.screenshot(to: pictures.appending(path: "4-devices.png"))
                    // The button is shown after a first click, with what it ends.
                    try await browser.click("summary")
                    #expect(try await browser.text(of: "details").contains("It is logged out"))
                    try await browser.click("button.danger")
                    #expect(
                        try await browser.text(of: "[role=status]") == "The device was removed.")
                    #expect(try await !browser.text(of: "main").contains(removed.kid))
                    #expect(try await browser.text(of: "main").contains(kept.kid))
                    try await browser.screenshot(to: pictures.appending(path: "5-removed.png"))

                    try await browser.open(server.origin + "/nothing")
                    #expect(try await browser.text(of: "main").contains("Page not found"))

                    #expect(try await server.authenticate(removed).status == 400)
                    #expect(try await server.authenticate(kept).status == 200)
                }
            }
        }
    }

    /// A client's page on another origin. The login form must be able to redirect there.
    private static func withCallbackPage(_ body: @Sendable (String) async throws -> Void)
        async throws
    {
        let router = Router()
        router.get("/callback") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "text/html"],
                body: .init(byteBuffer: .init(string: "<body>You may close this window.")))
        }
        let (ports, ready) = AsyncStream.makeStream(of: Int.self)
        var logger = Logger(label: "callback")
        logger.logLevel = .critical
        let group = ServiceGroup(
            configuration: .init(
                services: [
                    Application(
                        router: router,
                        configuration: .init(address: .hostname("127.0.0.1", port: 0)),
                        onServerRunning: { channel in
                            ready.yield(channel.localAddress?.port ?? 0)
                            ready.finish()
                        }, logger: logger)
                ], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            var iterator = ports.makeAsyncIterator()
            let port = try #require(await iterator.next())
            do {
                try await body("http://127.0.0.1:\(port)/callback")
                await group.triggerGracefulShutdown()
            } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
        }
    }
}
