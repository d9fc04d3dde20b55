import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_identity

/// A thing with which a user's machine gets something from the server.
enum Held: CaseIterable {
    /// The key of biometric login, and the session of a login with it.
    case deviceKey, deviceSession
    /// The keys of an enrolment, and a session of easy access.
    case enrolment, enrolmentSession
    /// A session that began with the password, and one that is bound to a key.
    case login, boundLogin
    /// What such a session can add.
    case setUp, newEnrolment
    /// A code that is not redeemed, an app session token, a page that an app opened, and the
    /// session of a browser in which the user logged in.
    case code, appToken, appPage, browser
    case password
    /// The key and the session of another machine.
    case otherKey, otherSession
}

/// A machine of the user `alice` with one of everything, and another machine.
final class UserMachine {
    private let server: TestServer
    private let (device, other) = (TestDevice(), TestDevice())
    private let login: Tokens
    private let boundRefresh: String
    private let (enrolled, enrolment): (Tokens, EnrolledDevice)
    private let (session, easy, otherSession): (Tokens, Tokens, Tokens)
    private let code: (text: String, request: AuthorizationParameters)
    private let (browser, page): (TestBrowser, TestBrowser)
    private let link: String
    /// Refresh tokens, by the first one of their session.
    private var refreshTokens: [String: String] = [:]

    init(_ server: TestServer) async throws {
        self.server = server
        login = try await server.login()
        try await server.setUp(device, bearer: login.access).success()
        try await server.setUp(other, bearer: login.access).success()
        session = try Tokens(await server.authenticate(device).success())
        otherSession = try Tokens(await server.authenticate(other).success())
        enrolment = try await server.enrolledDevice()
        enrolled = enrolment.tokens
        easy = try Tokens(
            await server.easyAccess(enrolment, form: ["scope": TestServer.fullScope]).success())
        let bound = try await server.login(provenBy: device)
        boundRefresh = try #require(bound["refresh_token"]?.string)
        browser = TestBrowser(server: server)
        page = TestBrowser(server: server)
        _ = try await browser.loginToSettings("alice")
        let request = AuthorizationParameters()
        code = (try await server.code(request), request)
        link = try await Self.link(of: login, on: server)
        _ = try await page.get(try await Self.link(of: login, on: server))
    }

    /// The address that opens the settings for an app.
    private static func link(of tokens: Tokens, on server: TestServer) async throws -> String {
        let refresh = try #require(tokens.refresh)
        let answer = try await server.post(
            "/oauth2/app_session_token", json: #"{"refresh_token":"\#(refresh)"}"#
        ).success()
        let token = try #require(answer["result"]?["app_session_token"]?.string)
        return "/oauth2/authorize?"
            + TestServer.encode([
                "response_type": "none", "client_id": "app", "prompt": "none",
                "redirect_uri": "\(server.origin)/settings",
                "login_hint":
                    "https://authgear.com/login_hint?type=app_session_token&app_session_token=\(token)",
            ])
    }

    // MARK: Events

    func perform(_ event: RevocationTests.Event) async throws {
        let services = server.services
        let user = server.alice.id
        let id = try #require(
            try await services.devices.devices(of: user).first { $0.kid.rawValue == device.kid }
        ).id
        switch event {
        case .nothing: break
        case .appDisablesLogin:
            let answer = try await server.post(
                "/api/identity/biometric/remove", json: #"{"kid":"\#(device.kid)"}"#,
                bearer: login.access)
            #expect(answer.status == 200)
        case .lockerEndsItself: #expect(try await server.revoke(enrolment).status == 204)
        case .deviceRemovedOnPage:
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            try await remove("biometric", "remove", "x_device_id", id, in: browser)
        case .deviceRemovedOnPageOfApp:
            let app = try await server.login()
            let browser = TestBrowser(server: server)
            _ = try await browser.get(Self.link(of: app, on: server))
            try await remove("biometric", "remove", "x_device_id", id, in: browser)
            try await server.userInfo(app.access).success()
        case .enrolmentRevokedOnPage:
            let browser = TestBrowser(server: server)
            _ = try await browser.loginToSettings("alice")
            try await remove("locker", "revoke", "x_device_id", enrolment.id, in: browser)
        case .deviceRevoked: #expect(try await services.revocation.revoke(id))
        case .enrolmentRevoked: #expect(try await services.revocation.revoke(enrolment.id))
        case .userRevoked: #expect(try await services.revocation.revokeAll(of: user) == 3)
        case .userDeleted:
            try await services.database.write {
                try $0.execute("DELETE FROM \"user\" WHERE id = \(user)")
            }
        case .passwordChanged:
            let password = try await services.users.hasher.hash("another password")
            try await services.database.write {
                try $0.execute("UPDATE \"user\" SET password = \(password) WHERE id = \(user)")
            }
        }
    }

    private func remove(
        _ path: String, _ action: String, _ member: String, _ id: String, in browser: TestBrowser
    ) async throws {
        let token = try await browser.get("/settings/\(path)").hiddenField("csrf_token")
        let form = ["csrf_token": token, "x_action": action, member: id]
        #expect(try await browser.post("/settings/\(path)", form).status == 303)
        #expect(try await browser.get("/settings").status == 200, "it stays logged in")
    }

    // MARK: What is accepted

    func accepted() async throws -> Set<Held> {
        var accepted: Set<Held> = []
        // Last: a login with a device's key ends the device's session.
        let keys: [Held] = [.deviceKey, .otherKey]
        for held in Held.allCases.filter({ !keys.contains($0) }) + keys
        where try await isAccepted(held) {
            accepted.insert(held)
        }
        return accepted
    }

    private func isAccepted(_ held: Held) async throws -> Bool {
        switch held {
        case .deviceKey: try await server.authenticate(device).status == 200
        case .otherKey: try await server.authenticate(other).status == 200
        case .deviceSession: try await isAccepted(session)
        case .otherSession: try await isAccepted(otherSession)
        case .enrolment:
            try await [
                server.easyAccess(enrolment), server.backgroundAccess(enrolment),
                server.levelShares(enrolment, bearer: enrolled.access),
            ].contains { $0.status == 200 }
        case .enrolmentSession: try await isAccepted(easy)
        case .login: try await isAccepted(enrolled)
        case .boundLogin:
            try await server.refresh(
                boundRefresh, proofs: [device.proof(server.tokenURL, now: server.time.seconds)]
            ).status == 200
        case .setUp: try await server.setUp(TestDevice(), bearer: login.access).status == 200
        case .newEnrolment:
            try await server.enrol(
                server.assertion("enrol", by: LockerTestKey()), bearer: enrolled.access
            ).status == 201
        case .code: try await server.exchange(code: code.text, code.request).status == 200
        case .appToken: try await TestBrowser(server: server).get(link).status == 303
        case .appPage: try await page.get("/settings").status == 200
        case .browser: try await browser.get("/settings").status == 200
        case .password:
            try await TestBrowser(server: server).loginToSettings("alice").status == 303
        }
    }

    /// Whether an access token or refresh token of a session is accepted.
    private func isAccepted(_ tokens: Tokens) async throws -> Bool {
        let first = try #require(tokens.refresh)
        let answer = try await server.refresh(refreshTokens[first] ?? first)
        if answer.status == 200 {
            refreshTokens[first] = try Tokens(answer.success()).refresh ?? refreshTokens[first]
        }
        let userInfo = try await server.userInfo(tokens.access)
        return answer.status == 200 || userInfo.status == 200
    }
}
