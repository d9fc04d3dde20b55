import Crypto
import Foundation
import HTTPTypes
import Latchkey
import LatchkeyCredentials

/// An OpenID provider in this process: it rotates refresh tokens and takes each once, as strict servers do.
actor Provider: HTTPTransport {
    static let issuer = "https://id.test"
    static let context = Token.Context(issuer: issuer, clientID: "app")

    /// What the provider does differently.
    struct Manner: Sendable {
        var rotates = true
        var lifetime = 3600
        /// Whether a refresh gives an ID token too, and what is different in it.
        var idToken: (@Sendable (inout [String: Any]) -> Void)?
        /// What the next token, revocation or userinfo request gets instead of an answer.
        var refusal: (status: Int, body: String)?
        var isUnreachable = false
        /// Has each request of the token endpoint wait for ``Provider/release()``.
        var holdsTokens = false
        var userInfoSubject = "jane"
        var endpoints: Set = ["userinfo", "revoke", "introspect"]
    }

    private(set) var requests: [(path: String, fields: [String: String])] = []
    private(set) var revoked: [String] = []
    private var manner: Manner
    private var live: Set<String> = ["refresh-0"]
    private var serial = 0
    private var held: [CheckedContinuation<Void, Never>] = []
    private var arrivals: [CheckedContinuation<Void, Never>] = []
    nonisolated let signer = TokenSigner()
    private let now: @Sendable () -> Date

    init(_ manner: Manner = Manner(), now: @escaping @Sendable () -> Date = { Date() }) {
        self.manner = manner
        self.now = now
    }

    func change(_ body: (inout Manner) -> Void) { body(&manner) }

    /// How many requests came to the path.
    func count(_ path: String) -> Int { requests.count { $0.path == path } }

    /// Waits until a request is held.
    func arrival() async {
        if held.isEmpty { await withCheckedContinuation { arrivals.append($0) } }
    }

    /// Answers all requests that are held, and holds no more.
    func release() {
        manner.holdsTokens = false
        held.forEach { $0.resume() }
        held = []
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let path = String((request.path ?? "").prefix { $0 != "?" })
        var fields = FormEncoding.decode(String(decoding: body, as: UTF8.self)) ?? [:]
        fields["authorization"] = request.headerFields[.authorization]
        requests.append((path, fields))
        guard !manner.isUnreachable else {
            throw KeystoreError(
                operation: "reach the server", code: .unavailable, reason: "the test cut the line", recovery: "None.")
        }
        if path == "/token", manner.holdsTokens {
            arrivals.forEach { $0.resume() }
            arrivals = []
            await withCheckedContinuation { held.append($0) }
        }
        if !path.hasPrefix("/.well-known"), path != "/keys", let refusal = manner.refusal {
            return answer(refusal.body, status: refusal.status)
        }
        switch path {
        case "/.well-known/openid-configuration": return answer(json(metadata))
        case "/keys": return answer(signer.keySet)
        case "/token": return token(fields)
        case "/userinfo": return answer(#"{"sub":"\#(manner.userInfoSubject)","name":"Jane"}"#)
        case "/revoke":
            revoked.append(fields["token_type_hint"] ?? "")
            live.remove(fields["token"] ?? "")
            return answer("")
        case "/introspect": return answer(#"{"active":\#(live.contains(fields["token"] ?? "")),"sub":"jane"}"#)
        default: return answer("", status: 404)
        }
    }

    private func token(_ fields: [String: String]) -> (HTTPResponse, [UInt8]) {
        guard let old = fields["refresh_token"], live.contains(old) else {
            return answer(#"{"error":"invalid_grant"}"#, status: 400)
        }
        serial += 1
        var response: [String: Any] = [
            "access_token": "access-\(serial)", "token_type": "Bearer", "expires_in": manner.lifetime,
        ]
        if manner.rotates {
            live.remove(old)
            live.insert("refresh-\(serial)")
            response["refresh_token"] = "refresh-\(serial)"
        }
        if let change = manner.idToken {
            response["id_token"] = signer.sign(claims(access: "access-\(serial)", change))
        }
        return answer(json(response))
    }

    private nonisolated func claims(
        access: String, _ change: @Sendable (inout [String: Any]) -> Void
    ) -> [String: Any] {
        var claims = TokenSigner.claims(now: now())
        change(&claims)
        return claims
    }

    private var metadata: [String: Any] {
        var metadata = [
            "issuer": Self.issuer, "token_endpoint": "\(Self.issuer)/token", "jwks_uri": "\(Self.issuer)/keys",
        ]
        for (path, name) in [("userinfo", "userinfo"), ("revoke", "revocation"), ("introspect", "introspection")]
        where manner.endpoints.contains(path) { metadata["\(name)_endpoint"] = "\(Self.issuer)/\(path)" }
        return metadata
    }

    private func answer(_ text: String, status: Int = 200) -> (HTTPResponse, [UInt8]) {
        (HTTPResponse(status: .init(code: status)), Array(text.utf8))
    }
}

func json(_ value: [String: Any]) -> String {
    String(decoding: (try? JSONSerialization.data(withJSONObject: value)) ?? Data(), as: UTF8.self)
}
