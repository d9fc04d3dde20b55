import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

@Suite("Removal of biometric identities") struct RemovalTests {
    private static let path = "/api/identity/biometric/remove"

    @Test func `the owner's app removes its identity once`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            let bearer = try await server.login().access
            try await server.setUp(device, bearer: bearer).success()
            let body = #"{"kid":"\#(device.kid)"}"#

            let removed = try await server.post(Self.path, json: body, bearer: bearer)
            #expect(removed.status == 200 && removed.body.isEmpty)
            try await server.authenticate(device).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")

            let again = try await server.post(Self.path, json: body, bearer: bearer)
            #expect(again.status == 404)
            #expect(try again.json["error"]?["name"] == .string("NotFound"))
            #expect(try again.json["error"]?["reason"] == .string("IdentityNotFound"))
            #expect(try again.json["error"]?["code"] == .number(404))
        }
    }

    @Test func `another user's identity is reported as not found and remains`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login("alice").access).success()
            let answer = try await server.post(
                Self.path, json: #"{"kid":"\#(device.kid)"}"#, bearer: server.login("bob").access)
            #expect(answer.status == 404)
            try await server.authenticate(device).success()
        }
    }

    @Test func `a request without a session gets 401, an invalid body 400`() async throws {
        try await TestServer.run { server in
            #expect(try await server.post(Self.path, json: #"{"kid":"12345678"}"#).status == 401)
            let bearer = try await server.login().access
            for body in ["{}", #"{"kid":1}"#, "[]"] {
                let answer = try await server.post(Self.path, json: body, bearer: bearer)
                #expect(answer.status == 400)
                #expect(try answer.json["error"]?["reason"] == .string("ValidationFailed"))
            }
            #expect(
                try await server.post(Self.path, json: #"{"kid":"?"}"#, bearer: bearer).status
                    == 404)
        }
    }

    @Test func `discovery advertises the extensions`() async throws {
        try await TestServer.run { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["biometric_removal_endpoint"] == .string(server.origin + Self.path))
            #expect(document["biometric_login_hint_supported"] == .bool(true))
            #expect(document["biometric_audience_required"] == .bool(true))
            #expect(document["issuer"] == .string(server.origin))
            for name in ["authorization", "token", "userinfo", "revocation"] {
                #expect(
                    document["\(name)_endpoint"]?.string?.hasPrefix(server.origin + "/oauth2/")
                        == true)
            }
        }
    }

    @Test func `the settings page lists and removes devices`() async throws {
        try await TestServer.run {
            $0.identity.biometric.listEnabled = true
        } body: { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let browser = TestBrowser(server: server)
            #expect(try await browser.loginToSettings("alice").headers[.location] == "/settings")
            #expect(try await browser.get("/settings").body.contains("1 device"))
            let page = try await browser.get("/settings/biometric")
            #expect(page.body.contains("Linux Test"))
            #expect(page.body.contains(device.kid))
            let form = [
                "csrf_token": try page.hiddenField("csrf_token"), "x_action": "remove",
                "x_device_id": try page.hiddenField("x_device_id"),
            ]
            #expect(try await browser.post("/settings/biometric", form).status == 303)
            #expect(
                try await browser.get("/settings/biometric").body.contains("No device is set up."))
            #expect(try await browser.post("/settings/biometric", form).status == 404)
            try await server.authenticate(device).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `another user cannot remove a device on the settings page`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login("alice").access).success()
            let identity = try #require(
                try await server.services.devices.devices(of: server.alice.id).first)
            let bob = TestBrowser(server: server)
            _ = try await bob.loginToSettings("bob")
            let token = try await bob.get("/settings").hiddenField("csrf_token")
            let answer = try await bob.post(
                "/settings/biometric",
                ["csrf_token": token, "x_action": "remove", "x_device_id": identity.id])
            #expect(answer.status == 404)
            try await server.authenticate(device).success()
        }
    }

    @Test func `the list is hidden by default`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            #expect(try await !browser.get("/settings").body.contains("/settings/biometric"))
        }
    }

    @Test func `a form from another site is refused`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let identity = try #require(
                try await server.services.devices.devices(of: server.alice.id).first)
            let (alice, bob) = (TestBrowser(server: server), TestBrowser(server: server))
            _ = try await alice.loginToSettings("alice")
            _ = try await bob.loginToSettings("bob")
            let foreign = try await bob.get("/settings").hiddenField("csrf_token")
            for token in ["", "AAAA", foreign] {
                let answer = try await alice.post(
                    "/settings/biometric",
                    ["csrf_token": token, "x_action": "remove", "x_device_id": identity.id])
                #expect(answer.status == 403)
                #expect(try await alice.post("/logout", ["csrf_token": token]).status == 403)
            }
            try await server.authenticate(device).success()
            #expect(try await alice.get("/settings").status == 200)
        }
    }

    @Test func `markup in a device's name stays text`() async throws {
        try await TestServer.run { server in
            let info = JSONValue.object([
                "ios": .object([
                    "uname": .object(["machine": .string("<script>alert(1)</script>\"'")])
                ])
            ])
            let jwt = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds,
                payload: ["device_info": info])
            try await server.biometric(jwt, bearer: server.login().access).success()
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            let page = try await browser.get("/settings/biometric").body
            #expect(!page.contains("<script"))
            #expect(page.contains("&lt;script&gt;"))
            #expect(!page.contains("Remove &lt;script&gt;alert(1)&lt;/script&gt;\""))
        }
    }
}
