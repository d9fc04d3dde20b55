import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Locker, the page with enrolled devices") struct LockerPageTests {
    @Test func `a user sees the devices and revokes one`() async throws {
        try await TestServer.run { server in
            let (device, other) = (
                try await server.enrolledDevice(), try await server.enrolledDevice("bob")
            )
            let session = try Tokens(await server.easyAccess(device).success())
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let settings = try await browser.get("/settings").body
            #expect(settings.contains("/settings/locker") && settings.contains("1 device<"))

            let page = try await browser.get("/settings/locker")
            #expect(page.body.contains("Linux Test") && page.body.contains("bench"))
            #expect(page.body.contains(device.id) && !page.body.contains(other.id))
            let form = [
                "csrf_token": try page.hiddenField("csrf_token"), "x_action": "revoke",
                "x_device_id": try page.hiddenField("x_device_id"),
            ]
            let answer = try await browser.post("/settings/locker", form)
            #expect(answer.status == 303 && answer.headers[.location] == "/settings/locker?revoked")
            let after = try await browser.get("/settings/locker?revoked").body
            #expect(
                after.contains("No device is enrolled.")
                    && after.contains("The device was revoked."))
            #expect(try await browser.post("/settings/locker", form).status == 404)

            try await server.easyAccess(device).expectRevoked()
            #expect(try await server.userInfo(session.access).status == 401)
            try await server.easyAccess(other).success()
        }
    }

    @Test func `another user's device and a form from another site are refused`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let (alice, bob) = (TestBrowser(server: server), TestBrowser(server: server))
            #expect(try await alice.get("/settings/locker").headers[.location] == "/login")
            _ = try await alice.loginToSettings("alice")
            _ = try await bob.loginToSettings("bob")
            let foreign = try await bob.get("/settings").hiddenField("csrf_token")
            let form = ["x_action": "revoke", "x_device_id": device.id]
            #expect(
                try await bob.post("/settings/locker", form.merging(["csrf_token": foreign]) { $1 })
                    .status == 404)
            for token in ["", "AAAA", foreign] {
                #expect(
                    try await alice.post(
                        "/settings/locker", form.merging(["csrf_token": token]) { $1 }
                    ).status == 403)
            }
            let own = try await alice.get("/settings").hiddenField("csrf_token")
            for wrong in [["x_action": "remove"], ["x_device_id": ""]] {
                let answer = try await alice.post(
                    "/settings/locker",
                    form.merging(["csrf_token": own]) { $1 }.merging(wrong) { $1 })
                try answer.expectRefusal(
                    400, "invalid_request", "x_action and x_device_id are required")
            }
            try await server.easyAccess(device).success()
        }
    }

    @Test func `enrolments of one machine are distinguishable`() async throws {
        try await TestServer.run { server in
            let used = try await server.enrolledDevice()
            let unused = try await server.enrolledDevice()
            try await server.disableEasyAccess(unused.id, bearer: unused.tokens.access).expectDone()
            server.time.advance(by: 60)
            try await server.backgroundAccess(used).success()
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let entries = try await browser.get("/settings/locker").body.split(separator: "</li>")
                .map(String.init)
            let first = try #require(entries.first { $0.contains(used.id) })
            let second = try #require(entries.first { $0.contains(unused.id) })
            let minute = server.time.clock.now.formatted(.iso8601).prefix(16)
            let time = "last used \(minute.prefix(10)) \(minute.suffix(5)) UTC"
            #expect(first.contains("\(time) · with easy access"))
            #expect(second.contains("not used yet · without easy access"))
            #expect(
                first.contains(">\(used.id.prefix(8))<")
                    && second.contains(">\(unused.id.prefix(8))<"))
        }
    }

    @Test func `a device's name does not change the direction of other text`() async throws {
        try await TestServer.run { server in
            let info: JSONValue = [
                "ios": [
                    "uname": [
                        "machine": "Lin\u{202E}ux\n",
                        "nodename": .string("\u{2066}b" + "x".repeated(500)),
                    ]
                ]
            ]
            let assertion = try await server.assertion(
                "enrol", by: LockerTestKey(), payload: ["device_info": info])
            #expect(try await server.enrol(assertion, bearer: server.login().access).status == 201)
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let page = try await browser.get("/settings/locker").body
            #expect(page.contains("<bdi>Lin\u{FFFD}ux\u{FFFD}</bdi>"))
            #expect(page.contains("<bdi>\u{FFFD}b\("x".repeated(97))…</bdi>"))
            #expect(!page.unicodeScalars.contains { $0.properties.generalCategory == .format })
        }
    }

    @Test func `markup in a device's name stays text`() async throws {
        try await TestServer.run { server in
            let info: JSONValue = ["ios": ["uname": ["machine": "<script>alert(1)</script>\"'"]]]
            let assertion = try await server.assertion(
                "enrol", by: LockerTestKey(), payload: ["device_info": info])
            let answer = try await server.enrol(assertion, bearer: server.login().access)
            #expect(answer.status == 201)
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let page = try await browser.get("/settings/locker").body
            #expect(!page.contains("<script"))
            #expect(page.contains("&lt;script&gt;"))
        }
    }
}

extension String {
    fileprivate func repeated(_ count: Int) -> String { String(repeating: self, count: count) }
}
