import Latchkey
import Testing

@testable import LatchkeyOAuth

struct AuthorizationRequestTests {
    private static func request(
        sendsIssuer: Bool = false, hint: AuthorizationRequest.UserHint? = nil
    ) -> AuthorizationRequest {
        AuthorizationRequest(
            clientID: "app", scope: "openid", options: .init(),
            issuer: "https://a.test", requiresIssuer: sendsIssuer, hint: hint)
    }

    private static func otherIssuer(_ named: String?) -> AuthorizationAnswer {
        .failure(.otherIssuer(named, expected: "https://a.test"))
    }

    private let request = AuthorizationRequestTests.request()

    @Test func `a request has the parameters that the article names`() throws {
        let endpoint = try #require(Endpoint("https://a.test/authorize"))
        let url = request.url(at: endpoint, redirectURI: "http://127.0.0.1:1/callback")
        let query = try #require(url.split(separator: "?").last)
        let names = query.split(separator: "&").compactMap { $0.split(separator: "=").first }
        #expect(
            names.sorted() == [
                "client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri",
                "response_type", "scope", "state", "x_sso_enabled", "x_suppress_idp_session_cookie",
            ])
        #expect(query.contains("x_suppress_idp_session_cookie=true"))
        #expect(query.contains("x_sso_enabled=false"))
    }

    @Test func `a response with another state is ignored`() {
        #expect(request.answer("code=c&state=\(request.state)") == .success("c"))
        for query in [
            "code=c", "code=c&state=", "code=c&state=\(request.state)x", "", "state",
            "code=c&state=%", "code=c&state=x&state=y", "code=c&code=d&state=x",
        ] {
            #expect(request.answer(query) == nil, "\(query)")
        }
    }

    /// Only the server knows the state. Without an end, the user waits ten minutes.
    @Test(arguments: [
        ("code=c&code=d", "code"), ("code=c&state=x", "state"), ("error=e&error=f", "error"),
        ("code=c&iss=a&iss=a", "iss"),
    ])
    func `a response with the right state and a repeated parameter ends the request`(
        query: String, name: String
    ) {
        let refusal = OAuth2Error(
            error: "invalid_request", description: "Repeated parameter: \(name)")
        #expect(
            request.answer("\(query)&state=\(request.state)") == .failure(.refused(refusal)))
    }

    @Test(arguments: ["x=%zz", "x=%FF", "%=1", "x=1&x=2", "", "error="])
    func `other parameters of a response do not matter`(more: String) {
        #expect(request.answer("code=c&\(more)&state=\(request.state)") == .success("c"))
        let answer = request.answer("error=e&error_description=%FF&state=\(request.state)")
        #expect(answer == .failure(.refused(OAuth2Error(error: "e"))))
    }

    @Test func `errors and a missing code end the request`() {
        let state = "state=\(request.state)"
        #expect(request.answer("error=cancel&\(state)") == .failure(.declined))
        #expect(
            request.answer("error=e&error_description=a+b&error_uri=u&\(state)")
                == .failure(.refused(OAuth2Error(error: "e", description: "a b", uri: "u"))))
        #expect(
            request.answer(state)
                == .failure(
                    .refused(
                        OAuth2Error(
                            error: "invalid_request", description: "Missing parameter: code"))))
    }

    /// RFC 9207 section 2.4, for codes and errors alike.
    @Test(arguments: ["code=c", "error=cancel", ""])
    func
        `an answer of another issuer is refused, and an answer without an issuer if the server announces one`(
            answer: String
        )
    {
        for sendsIssuer in [true, false] {
            let request = Self.request(sendsIssuer: sendsIssuer)
            let query = "\(answer)&state=\(request.state)"
            let own = request.answer("\(query)&iss=https%3A%2F%2Fa.test")
            #expect(own != nil && own != Self.otherIssuer("https://a.test"))
            for issuer in ["https://b.test", "https://a.test/", "https://A.test", "a.test", ""] {
                let fields = FormEncoding.encode([("iss", issuer)])
                #expect(
                    request.answer("\(query)&\(fields)") == Self.otherIssuer(issuer), "\(issuer)")
            }
            #expect((request.answer(query) == Self.otherIssuer(nil)) == sendsIssuer)
        }
    }

    @Test func `a user's id is escaped twice in the hint`() throws {
        let hinted = Self.request(hint: .userID("a&b=c"))
        let url = hinted.url(
            at: try #require(Endpoint("https://a.test/authorize?x=1")),
            redirectURI: "http://127.0.0.1:1/")
        #expect(url.hasPrefix("https://a.test/authorize?x=1&response_type=code&client_id=app&"))
        let query = try #require(FormEncoding.decode(url.drop { $0 != "?" }.dropFirst()))
        #expect(
            query["login_hint"] == "https://authgear.com/login_hint?type=user_id&user_id=a%26b%3Dc")
    }
}
