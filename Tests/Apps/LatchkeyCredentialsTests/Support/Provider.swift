import Foundation
import HTTPTypes
import Latchkey
import LatchkeyCredentials
import LatchkeyJOSE
import LatchkeyOAuth
import LatchkeyTestSupport
import Synchronization

/// An OpenID provider in memory that can fail on demand. It accepts a refresh token once, and
/// counts its requests.
final class Provider: HTTPTransport {
    struct Manner: Sendable {
        var issuer = "https://id.test"
        var lifetime = 3600
        /// Whether a refresh token is replaced when it is used, and its second use refused.
        var rotates = true
        /// Whether a refresh brings a new ID token.
        var renewsIDToken = true
        var canRevoke = true
        var canIntrospect = true
        /// By how many seconds its clock is ahead of this machine's, and whether its answers tell.
        var clockOffset: TimeInterval = 0
        var tellsTime = false
    }

    private struct State {
        var count = 0
        var valid: Set<String> = []
        var requests: [String] = []
        var failures: [(path: String, step: Step)] = []
        var signer: Signer?
        var subject = "jane"
        var hold: Hold?
        var loginPage: (url: String, announcesIssuer: Bool)?
    }

    /// What happens to a request instead.
    enum Step: Sendable {
        case status(Int, String)
        case noNetwork
        /// The server does what it is asked, and its answer is lost.
        case loseAnswer
        /// The server does what it is asked, and its answer has other members.
        case answer([String: JSONValue])
    }

    let manner: Manner
    private let clock: SettableClock
    private let state: Mutex<State>

    init(_ manner: Manner = .init(), clock: SettableClock) {
        self.manner = manner
        self.clock = clock
        state = Mutex(State())
    }

    // MARK: For tests

    /// Method and path of all requests so far.
    var requests: [String] { state.withLock { $0.requests } }

    func count(_ path: String) -> Int { requests.count { $0.hasSuffix(" \(path)") } }

    func fail(_ path: String, _ step: Step) {
        state.withLock { $0.failures.append((path, step)) }
    }

    func healAll() { state.withLock { $0.failures = [] } }

    /// Lets the next request for the token wait until the test lets it go.
    func hold() -> Hold {
        let hold = Hold()
        state.withLock { $0.hold = hold }
        return hold
    }

    var signer: Signer {
        get throws {
            try state.withLock { state in
                if let signer = state.signer { return signer }
                let signer = try Signer()
                state.signer = signer
                return signer
            }
        }
    }

    func use(_ signer: Signer) { state.withLock { $0.signer = signer } }

    func setSubject(_ subject: String) { state.withLock { $0.subject = subject } }

    func setLoginPage(_ url: String, announcesIssuer: Bool) {
        state.withLock { $0.loginPage = (url, announcesIssuer) }
    }

    /// Whether the server still takes a token.
    func isValid(_ token: String?) -> Bool {
        state.withLock { state in token.map(state.valid.contains) ?? false }
    }

    /// The token of a user who has just signed in.
    func signIn(
        subject: String = "jane", id: String = Token.newID(), refreshes: Bool = true,
        deviceSecret: Bool = false,
        claims: [String: JSONValue] = [:], lifetime: Int? = nil
    ) throws -> Token {
        let answer = try answer(
            subject, claims: claims, refreshes: refreshes, deviceSecret: deviceSecret, lifetime)
        return try Token(
            response: answer, context: Token.Context(issuer: manner.issuer, clientID: "app"),
            id: id,
            receivedAt: clock.now)
    }

    func idToken(_ subject: String, _ claims: [String: JSONValue] = [:]) throws -> JWT {
        let now = now.timeIntervalSince1970
        let standard: [String: JSONValue] = [
            "iss": .string(manner.issuer), "sub": .string(subject), "aud": .string("app"),
            "iat": .number(now),
            "exp": .number(now + 3600), "email": .string("\(subject)@example.com"),
        ]
        return try signer.sign(standard.merging(claims) { $1 })
    }

    /// The time by its own clock.
    private var now: Date { clock.now + manner.clockOffset }

    // MARK: HTTPTransport

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let path = request.path ?? ""
        let (step, hold) = state.withLock { state -> (Step?, Hold?) in
            state.requests.append("\(request.method) \(path)")
            let index = state.failures.firstIndex { $0.path == path }
            let step = index.map { state.failures.remove(at: $0).step }
            guard path == "/token" else { return (step, nil) }
            defer { state.hold = nil }
            return (step, state.hold)
        }
        await hold?.wait()
        switch step {
        case .status(let status, let text):
            return (HTTPResponse(status: .init(code: status)), Array(text.utf8))
        case .noNetwork: throw Self.unreachable
        case .loseAnswer:
            _ = respond(
                request, form: FormEncoding.decode(String(decoding: body, as: UTF8.self)) ?? [:])
            throw Self.unreachable
        case .answer(let members):
            let (_, body) = respond(
                request, form: FormEncoding.decode(String(decoding: body, as: UTF8.self)) ?? [:])
            let whole = (try? JSONDecoder().decode([String: JSONValue].self, from: body)) ?? [:]
            return (
                HTTPResponse(status: .ok),
                Array((try? JSONEncoder().encode(whole.merging(members) { $1 })) ?? Data())
            )
        case nil:
            let (status, body) = respond(
                request, form: FormEncoding.decode(String(decoding: body, as: UTF8.self)) ?? [:])
            return (HTTPResponse(status: .init(code: status), headerFields: fields), Array(body))
        }
    }

    private var fields: HTTPFields {
        guard manner.tellsTime else { return [:] }
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return [.date: formatter.string(from: now)]
    }

    private static let unreachable = KeystoreError(
        operation: "reach the server", code: .unavailable, reason: "the cable is out",
        recovery: "Put it in.")

    private func respond(_ request: HTTPRequest, form: [String: String]) -> (Int, Data) {
        let issuer = manner.issuer
        let bearer = request.headerFields[.authorization]?.split(separator: " ").last.map(
            String.init)
        do {
            switch request.path {
            case "/.well-known/openid-configuration":
                var document: [String: JSONValue] = [
                    "issuer": .string(issuer), "token_endpoint": .string("\(issuer)/token"),
                    "jwks_uri": .string("\(issuer)/keys"),
                    "userinfo_endpoint": .string("\(issuer)/userinfo"),
                ]
                if manner.canRevoke {
                    document["revocation_endpoint"] = .string("\(issuer)/revoke")
                }
                if manner.canIntrospect {
                    document["introspection_endpoint"] = .string("\(issuer)/introspect")
                }
                if let page = state.withLock({ $0.loginPage }) {
                    document["authorization_endpoint"] = .string(page.url)
                    document["authorization_response_iss_parameter_supported"] = .bool(
                        page.announcesIssuer)
                }
                return (200, try JSONEncoder().encode(document))
            case "/keys": return (200, try JSONEncoder().encode(["keys": [signer.jwk]]))
            case "/token": return try refresh(form)
            case "/revoke":
                state.withLock { _ = $0.valid.remove(form["token"] ?? "") }
                return (200, Data())
            case "/introspect":
                return (200, Data(#"{"active":\#(isValid(form["token"]))}"#.utf8))
            case "/userinfo":
                guard isValid(bearer) else {
                    return (401, Data(#"{"error":"invalid_token"}"#.utf8))
                }
                let subject = state.withLock { $0.subject }
                return (200, Data(#"{"sub":"\#(subject)","name":"Jane Doe"}"#.utf8))
            default: return (404, Data())
            }
        } catch {
            return (500, Data("\(error)".utf8))
        }
    }

    private func refresh(_ form: [String: String]) throws -> (Int, Data) {
        let token = form["refresh_token"] ?? ""
        let isTaken = state.withLock { state in
            manner.rotates ? state.valid.remove(token) != nil : state.valid.contains(token)
        }
        guard form["grant_type"] == "refresh_token", form["client_id"] == "app", isTaken else {
            return (400, Data(#"{"error":"invalid_grant"}"#.utf8))
        }
        let subject = state.withLock { $0.subject }
        return (
            200,
            try answer(subject, claims: [:], refreshes: manner.rotates, deviceSecret: false, nil)
        )
    }

    private func answer(
        _ subject: String, claims: [String: JSONValue], refreshes: Bool, deviceSecret: Bool,
        _ lifetime: Int?
    ) throws -> Data {
        let number = state.withLock { state in
            state.count += 1
            state.valid.insert("access-\(state.count)")
            if refreshes { state.valid.insert("refresh-\(state.count)") }
            if deviceSecret { state.valid.insert("device-\(state.count)") }
            return state.count
        }
        var members: [String: JSONValue] = [
            "access_token": .string("access-\(number)"), "token_type": .string("Bearer"),
            "expires_in": .number(Double(lifetime ?? manner.lifetime)), "scope": .string("openid"),
        ]
        if refreshes { members["refresh_token"] = .string("refresh-\(number)") }
        if deviceSecret { members["device_secret"] = .string("device-\(number)") }
        if manner.renewsIDToken || number == 1 {
            members["id_token"] = .string(try idToken(subject, claims).rawValue)
        }
        return try JSONEncoder().encode(members)
    }
}
