import FoundationEssentials
import LatchkeyJOSE
import LatchkeyOAuth
import Testing

struct TokenResponseTests {
    private func read(_ body: String) -> TokenResponse { TokenResponse(Data(body.utf8)) }

    private func answer(_ members: String) -> TokenResponse {
        read(#"{"access_token":"a","token_type":"Bearer"\#(members)}"#)
    }

    @Test(
        arguments: [
            ("", nil), (#","expires_in":60"#, 60), (#","expires_in":"3600""#, 3600),
            (#","expires_in":"3599.5""#, 3599.5), (#","expires_in":0"#, 0),
            (#","expires_in":" 3600 ""#, 3600), (#","expires_in":"36 00""#, nil),
            (#","expires_in":3600.0"#, 3600), (#","expires_in":99999999999999999999"#, nil),
            (#","expires_in":null"#, nil),
            (#","expires_in":-1"#, nil), (#","expires_in":"soon""#, nil),
            (#","expires_in":"""#, nil),
            (#","expires_in":"0x10""#, nil), (#","expires_in":"inf""#, nil),
            (#","expires_in":"-5""#, nil),
            (#","expires_in":true"#, nil), (#","expires_in":[60]"#, nil),
            (#","expires_in":1e300"#, nil),
            (#","expires_in":".""#, nil),
        ] as [(String, Double?)])
    func `the lifetime is a number or its decimal text, or unknown`(
        member: String, seconds: Double?
    ) throws {
        let response = try answer(member).checked()
        #expect(response.expiresIn == seconds)
        #expect(response.lifetime == seconds ?? TokenResponse.assumedLifetime)
        let isAbsent = member.isEmpty || member.contains("null")
        #expect((response.skipped[.expiresIn] == nil) == (seconds != nil || isAbsent))
    }

    @Test(arguments: ["refresh_token", "id_token", "scope", "device_secret", "issued_token_type"])
    func `optional members that cannot be used are skipped with a reason`(name: String) throws {
        for (value, isNoted) in [
            ("5", true), ("{}", true), ("[]", true), ("null", false), ("\"\"", false),
        ] {
            let response = try answer(#","\#(name)":\#(value),"x":1"#).checked()
            #expect(response.members[name] == nil, "\(value)")
            #expect(response.notes.isEmpty == !isNoted, "\(value)")
            #expect(response.notes.allSatisfy { $0.contains("‘\(name)’") })
            #expect(response.members["x"] == 1)
        }
    }

    @Test(
        arguments: [
            ("[]", .notAnObject), ("", .notAnObject), ("<html>", .notAnObject),
            (#"{"token_type":"Bearer"}"#, .missing(.accessToken)),
            (#"{"access_token":null,"token_type":"Bearer"}"#, .missing(.accessToken)),
            (#"{"access_token":"","token_type":"Bearer"}"#, .unusable(.accessToken)),
            (#"{"access_token":"a b","token_type":"Bearer"}"#, .unusable(.accessToken)),
            (#"{"access_token":"a\r\nX: y","token_type":"Bearer"}"#, .unusable(.accessToken)),
            (#"{"access_token":5,"token_type":"Bearer"}"#, .unusable(.accessToken)),
            (#"{"access_token":"a"}"#, .missing(.tokenType)),
            (#"{"access_token":"a","token_type":7}"#, .unusable(.tokenType)),
            (#"{"access_token":"a","token_type":"mac"}"#, .type("mac")),
            (
                #"{"access_token":"a","token_type":"Bearer","access_token":"b"}"#,
                .repeatedMember("access_token")
            ),
            (
                #"{"access_token":"a","token_type":"Bearer","x":{"y":1,"y":2}}"#,
                .repeatedMember("y")
            ),
            (#"{"access_token":"a","token_type":"Bearer","error":"x"}"#, .error("x")),
            (#"{"access_token":"a","token_type":"Bearer","error":{"x":1}}"#, .error(nil)),
            (#"{"error":"x"}"#, .error("x")),
        ] as [(String, TokenResponseFlaw)])
    func `a response without a usable access token is refused with its cause`(
        body: String, flaw: TokenResponseFlaw
    ) {
        #expect(throws: flaw) { try read(body).checked() }
        #expect(read(body).accessToken.isEmpty || flaw == .type("mac"))
    }

    @Test(arguments: [
        #"{"refresh_token":"r"}"#, #"{"access_token":5,"refresh_token":"r"}"#,
        #"{"access_token":"a","access_token":"b","token_type":"Bearer","refresh_token":"r"}"#,
        #"{"refresh_token":"r","expires_in":1,"expires_in":2}"#,
        #"{"access_token":"a","token_type":"Bearer","refresh_token":"r","error":"x"}"#,
    ])
    func `a refused response keeps its refresh token`(body: String) {
        let response = read(body)
        #expect(throws: TokenResponseFlaw.self) { try response.checked() }
        #expect(response[.refreshToken] == "r" && response.refreshToken != nil)
        #expect(throws: TokenResponseFlaw.self) {
            try response.merged(into: ["token_type": "Bearer"]).checked()
        }
    }

    /// Bodies of proxies and of servers that do not follow the standard.
    @Test(arguments: [
        #")]}',\#u{0A}{"access_token":"a","refresh_token":"r\u002f\"\\"}"#,
        #"{"access_token":"a","token_type":"Bearer","refresh_token" : "r/\"\\"}\#u{0}"#,
        #"[{"refresh_token":\#u{09}"r\/\"\\"}]"#,
        #"{"expires_in":1e400,"refresh_token":"r/\"\\"}"#,
        #"{"refresh_token":"r/\"\\","x":\#(String(repeating: "[", count: 10_000))"#,
        "access_token=a&token_type=bearer&refresh_token=r%2F%22%5C",
    ])
    func `a body that is no JSON object keeps its refresh token`(body: String) {
        let response = read(body)
        #expect(throws: TokenResponseFlaw.self) { try response.checked() }
        #expect(response[.refreshToken] == #"r/"\"#)
    }

    @Test(arguments: [
        "", "<html>", #""refresh_token""#, #""refresh_token":5"#, #""refresh_token":"r"#,
        #""refresh_token":"r\"#, "refresh_token", "refresh_token=%",
    ])
    func `no refresh token is invented`(body: String) {
        #expect(read(body).refreshToken == nil)
    }

    @Test func `a number out of bounds is named`() {
        let flaw = #expect(throws: TokenResponseFlaw.self) {
            try read(#"{"access_token":"a","expires_in":1e400}"#).checked()
        }
        #expect(flaw?.reason.contains("‘expires_in’") == true, "\(String(describing: flaw))")
    }

    @Test(arguments: ["null", "\"\"", "false", "0", "{}", "[]"])
    func `an empty error is none`(error: String) throws {
        #expect(try answer(#","error":\#(error)"#).checked().accessToken == "a")
    }

    @Test func `a response to a refresh keeps what it lacks, but no old access token`() throws {
        let old: [String: JSONValue] = [
            "access_token": "old", "token_type": "Bearer", "expires_in": 60, "scope": "a",
            "refresh_token": "r",
        ]
        let merged = try read(#"{"access_token":"new"}"#).merged(into: old).checked()
        #expect(merged.accessToken == "new" && merged.expiresIn == nil)
        #expect(merged[.scope] == "a" && merged[.refreshToken] == "r")
        #expect(throws: TokenResponseFlaw.missing(.accessToken)) {
            try read("{}").merged(into: old).checked()
        }
    }

    @Test(
        arguments: [
            (#"["a"]"#, "a"), (#"["a","b"]"#, "a b"), (#"["a",5]"#, nil), (#"["a b"]"#, nil),
            (#"[""]"#, nil), ("[[]]", nil),
        ] as [(String, String?)])
    func `a scope can be a list of texts`(value: String, scope: String?) throws {
        let response = try answer(#","scope":\#(value)"#).checked()
        #expect(response[.scope] == scope)
        #expect(response.notes.isEmpty == (scope != nil))
    }

    @Test func `a response in UTF-16 keeps its refresh token`() throws {
        let text = #"{"access_token":"a","token_type":"Bearer","refresh_token":"r"}"#
        let little = text.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
        let big = text.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
        for bytes in [little, big, [0xff, 0xfe] + little] {
            let response = TokenResponse(Data(bytes))
            #expect(throws: TokenResponseFlaw.notAnObject) { try response.checked() }
            #expect(response[.refreshToken] == "r")
        }
    }

    @Test func `a required member that is missing or odd is named`() {
        #expect(throws: TokenResponseFlaw.missing(.idToken)) { try answer("").required(.idToken) }
        #expect(throws: TokenResponseFlaw.unusable(.idToken)) {
            try answer(#","id_token":5"#).required(.idToken)
        }
    }
}
