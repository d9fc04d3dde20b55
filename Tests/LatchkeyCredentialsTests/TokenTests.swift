import Foundation
import Latchkey
import LatchkeyCredentials
import Testing

/// Tokens as values, and as what is stored.
struct TokenTests {
    private static let jwt: String = TokenSigner().sign(["sub": "jane", "aud": ["a", "b"], "exp": 2_000_000_000])

    private static let response = """
        {"access_token":"a","token_type":"Bearer","expires_in":"3600","refresh_token":"r","id_token":"\(jwt)",\
        "scope":"openid","device_secret":"d","odd":{"x":[1]}}
        """

    private func decode(_ text: String, context: Token.Context? = Provider.context) throws -> Token {
        let decoder = JSONDecoder()
        if let key = Token.contextKey { decoder.userInfo[key] = context }
        return try decoder.decode(Token.self, from: Data(text.utf8))
    }

    private func check(_ token: Token) {
        #expect((token.accessToken, token.tokenType, token.refreshToken) == ("a", "Bearer", "r"))
        #expect((token.scope, token.deviceSecret, token.expiresIn) == ("openid", "d", 3600))
        #expect(token.subject == "jane" && token.audience == ["a", "b"])
        #expect(token.expirationTime == Date(timeIntervalSince1970: 2_000_000_000))
        #expect(token.context == Provider.context)
    }

    @Test func `a server's answer is a token, in its context`() throws {
        let token = try decode(Self.response)
        check(token)
        #expect(abs(token.issuedAt.timeIntervalSinceNow) < 10)
        #expect(throws: DecodingError.self) { try decode(Self.response, context: nil) }
    }

    @Test func `what is written is read again, whole`() throws {
        let token = try decode(Self.response)
        let again = try JSONDecoder().decode(Token.self, from: JSONEncoder().encode(token))
        #expect(again.id == token.id)
        check(again)
        #expect(abs(again.issuedAt.timeIntervalSince(token.issuedAt)) < 0.001)
        let text = String(decoding: try JSONEncoder().encode(again), as: UTF8.self)
        #expect(text.contains("odd"))
    }

    @Test func `what iOS apps stored is read too`() throws {
        let context = #""context":{"configuration":{"clientId":"app","baseURL":"https://id.test"}}"#
        let nested = #"{"id":"x","issuedAt":700000000,\#(context),"rawValue":\#(Self.response)}"#
        let flat = """
            {"id":"x","issuedAt":700000000,\(context),"accessToken":"a","tokenType":"Bearer","expiresIn":3600,\
            "refreshToken":"r","idToken":"\(Self.jwt)","scope":"openid","deviceSecret":"d"}
            """
        for text in [nested, flat] {
            let token = try decode(text, context: nil)
            check(token)
            #expect(token.id == "x")
            #expect(token.issuedAt == Date(timeIntervalSinceReferenceDate: 700_000_000))
        }
    }

    @Test func `a newer version is refused`() throws {
        let text = #"{"version":2,"id":"x","issuedAt":0,"context":{"issuer":"i","clientID":"c"},"rawValue":{}}"#
        #expect(throws: DecodingError.self) { try decode(text) }
    }

    @Test(arguments: [
        "{}", #"{"access_token":"","token_type":"Bearer"}"#, #"{"access_token":"a b","token_type":"Bearer"}"#,
        #"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#, #"{"access_token":"a"}"#,
        #"{"access_token":"a","token_type":"Bearer","expires_in":-1}"#,
        #"{"access_token":"a","token_type":"Bearer","expires_in":1e300}"#,
        #"{"access_token":"a","token_type":"Bearer","expires_in":"soon"}"#,
        #"{"access_token":"a","token_type":"Bearer","id_token":"x.y"}"#, "[]", "null",
    ])
    func `what is no token is none`(text: String) throws {
        #expect(throws: (any Error).self) { try decode(text) }
    }

    @Test(arguments: ["", "a/b", "a b", "ä", String(repeating: "x", count: 65)])
    func `what is no id is none`(id: String) throws {
        let response: [String: JSONValue] = ["access_token": "a", "token_type": "Bearer"]
        #expect(throws: CredentialError.self) { try Token(response, context: Provider.context, id: id) }
    }

    @Test func `a token prints none of its secrets`() throws {
        let token = try decode(Self.response)
        var text = "\(token) \(String(reflecting: token)) \(String(describing: token.idToken))"
        dump(token, to: &text)
        #expect(!text.contains(Self.jwt) && !text.contains("refresh"))
    }
}
