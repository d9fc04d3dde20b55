import Foundation
import Latchkey
import LatchkeyCredentials
import Testing

struct TokenTests {
    private let context = Token.Context(
        issuer: "https://id.test", clientID: "app", clientSecret: "s3cret")

    private func token(_ json: String, context: Token.Context? = nil) throws -> Token {
        try Token(response: Data(json.utf8), context: context ?? self.context)
    }

    @Test func `a server's answer is read`() throws {
        let token = try token(
            #"{"access_token":"a","token_type":"Bearer","expires_in":60,"scope":null,"refresh_token":"r","x":[1]}"#
        )
        #expect(token.accessToken == "a")
        #expect(token.refreshToken == "r")
        #expect(token.scope == nil)
        #expect(token.expiresIn == 60)
        #expect(token.expiresAt == token.issuedAt.addingTimeInterval(60))
        #expect(!token.isExpired(at: token.issuedAt.addingTimeInterval(59)))
        #expect(token.isExpired(at: token.issuedAt.addingTimeInterval(60)))
        #expect(token.claims.isEmpty)
        #expect(UUID(uuidString: token.id) != nil)
    }

    @Test func `a token without an expiry never expires`() throws {
        let token = try token(#"{"access_token":"a","token_type":"Bearer"}"#)
        #expect(token.expiresAt == nil)
        #expect(!token.isExpired(at: .distantFuture))
    }

    @Test func `an encoded token is decoded with its id and time`() throws {
        let token = try token(
            #"{"access_token":"a","token_type":"Bearer","expires_in":"60","x":{"y":[1,true,null,"z"]}}"#
        )
        let written = try JSONEncoder().encode(token)
        #expect(try JSONDecoder().decode(Token.self, from: written) == token)
    }

    @Test func `a newer version is refused`() throws {
        let token = try token(#"{"access_token":"a","token_type":"Bearer"}"#)
        let text = String(decoding: try JSONEncoder().encode(token), as: UTF8.self)
        #expect(text.contains(#""version":1"#))
        let newer = text.replacing(#""version":1"#, with: #""version":2"#)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(Token.self, from: Data(newer.utf8))
        }
    }

    @Test(arguments: ["1e300", "-1e300", "253402300800"])
    func `a token with an invalid time is refused`(_ time: String) throws {
        let stored =
            #"{"version":1,"id":"1","issuedAt":\#(time),"context":{"issuer":"https://id.test","clientID":"a"}"#
        let json = stored + #","response":{"access_token":"a","token_type":"Bearer"}}"#
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(Token.self, from: Data(json.utf8))
        }
    }

    @Test func `the ID token names the server and client of a response without a context`() throws {
        let signer = try Signer()
        let one = try signer.sign([
            "iss": .string("https://id.test"), "sub": .string("j"), "aud": .string("app"),
        ])
        let bare = #"{"access_token":"a","token_type":"Bearer","id_token":"\#(one.rawValue)"}"#
        let token = try JSONDecoder().decode(Token.self, from: Data(bare.utf8))
        #expect(token.context == Token.Context(issuer: "https://id.test", clientID: "app"))
        #expect(token.subject == "j")
        #expect(token.audience == ["app"])
        let two = try signer.sign([
            "iss": .string("https://id.test"), "aud": .array([.string("a"), .string("b")]),
        ])
        let ambiguous = #"{"access_token":"a","token_type":"Bearer","id_token":"\#(two.rawValue)"}"#
        #expect(throws: credentials(.invalidInput)) { try Token(response: Data(ambiguous.utf8)) }
        #expect(throws: credentials(.invalidInput)) {
            try Token(response: Data(#"{"access_token":"a","token_type":"Bearer"}"#.utf8))
        }
    }

    @Test(arguments: [
        "", "[]", "null", "{}", #"{"access_token":"a"}"#, #"{"token_type":"Bearer"}"#,
        #"{"access_token":"","token_type":"Bearer"}"#,
        #"{"access_token":"a b","token_type":"Bearer"}"#,
        #"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#,
        #"{"access_token":7,"token_type":"Bearer"}"#,
        #"{"access_token":"a","token_type":"Bearer","id_token":"x"}"#,
        #"{"access_token":"a","token_type":"Bearer","scope":"a","scope":"b"}"#,
    ])
    func `an invalid response is refused`(json: String) {
        #expect(throws: credentials(.invalidInput)) { try token(json) }
    }

    @Test(arguments: ["http://id.test", "ftp://id.test", "id.test", ""])
    func `an issuer that is neither https nor local is refused`(issuer: String) {
        #expect(throws: credentials(.invalidInput)) {
            try token(
                #"{"access_token":"a","token_type":"Bearer"}"#,
                context: Token.Context(issuer: issuer, clientID: "app"))
        }
    }

    @Test(arguments: ["", "a b", "ä", "a\n", String(repeating: "x", count: 97)])
    func `an invalid id is refused`(id: String) {
        #expect(throws: credentials(.invalidInput)) {
            try Token(
                response: Data(#"{"access_token":"a","token_type":"Bearer"}"#.utf8),
                context: context, id: id)
        }
    }

    @Test func `descriptions contain no secret`() throws {
        let signer = try Signer()
        let idToken = try signer.sign([
            "iss": .string("https://id.test"), "sub": .string("canary-subject"),
        ])
        let token = try token(
            """
            {"access_token":"canary-a","token_type":"Bearer","refresh_token":"canary-r",\
            "id_token":"\(idToken.rawValue)"}
            """)
        var dumped = ""
        dump(token, to: &dumped)
        dump(token.context, to: &dumped)
        dump(idToken, to: &dumped)
        for text in [
            "\(token)", String(reflecting: token), dumped, "\(token.context)", "\(idToken)",
        ] {
            #expect(
                !text.contains("canary") && !text.contains("s3cret") && !text.contains("eyJ"),
                "\(text)")
        }
    }
}
