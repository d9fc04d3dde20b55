import FoundationEssentials
import Latchkey

/// A request for an authorization code.
struct AuthorizationParameters: Sendable {
    var redirectURI = TestServer.redirectURI
    var scope = TestServer.fullScope
    /// A verifier and its challenge from Authgear's tests.
    var verifier = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"
    var challenge = "RqIZl4LIgn8KxW9QO-nTnv7pf0CnNrksx9fF-CXP2FE"
    var more: [String: String] = [:]

    init(
        redirectURI: String = TestServer.redirectURI, scope: String = TestServer.fullScope,
        more: [String: String] = [:]
    ) {
        self.redirectURI = redirectURI
        self.scope = scope
        self.more = more
    }

    var path: String {
        "/oauth2/authorize?"
            + TestServer.encode(
                [
                    "response_type": "code", "client_id": "app", "redirect_uri": redirectURI,
                    "scope": scope,
                    "code_challenge": challenge, "code_challenge_method": "S256",
                    "state": "state-1",
                    "nonce": "nonce-1",
                ].merging(more) { $1 }.filter { !$0.value.isEmpty })
    }
}
