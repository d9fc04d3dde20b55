import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import Testing

/// JSON from clients and servers.
struct ReceivedJSONTests {
    private func decode(_ json: String, maximum: Int = 512) throws -> JSONValue {
        try ReceivedJSON.decode(JSONValue.self, from: Data(json.utf8), maximumSeparators: maximum)
    }

    @Test(arguments: ["[", "{", ",", ":"]) func `each separator counts`(separator: String) {
        let text = String(repeating: separator, count: 513)
        #expect(throws: ReceivedJSON.Flaw.tooComplex) { try decode(text) }
        // The parser refuses it.
        let error = #expect(throws: (any Error).self) { try decode(String(text.dropLast())) }
        #expect(!(error is ReceivedJSON.Flaw))
    }

    @Test func `the separators of texts do not count, and a quote in a text does not end it`()
        throws
    {
        let text = String(repeating: #"[{,:\"\\"#, count: 200)
        let value = try decode("[\"\(text)\",0]", maximum: 2)
        #expect(value == [.string(String(repeating: #"[{,:"\"#, count: 200)), 0])
        let flaw = ReceivedJSON.Flaw.tooComplex
        #expect(throws: flaw) { try decode("[\"\(text)\",0]", maximum: 1) }
        // The text ends at the second quote.
        #expect(throws: flaw) { try decode(#"["\\",0]"#, maximum: 1) }
    }

    @Test(arguments: [
        (#"{"a":1,"a":2}"#, "a"),
        (#"{"a":1,"b":{},"a":1}"#, "a"),
        (#"{"a":1,"\u0061":2}"#, "a"),
        (#"{"\u0061ud":1,"a\u0075d":2}"#, "aud"),
        (#"{"\/":1,"/":2}"#, "/"),
        (#"{"\ud83d\ude00":1,"😀":2}"#, "😀"),
        // The parser's dictionary compares texts by their characters, not by their bytes.
        (#"{"é":1,"e\u0301":2}"#, "é"),
        (#"{"":1,"":2}"#, ""),
        (#"[{"x":{"y":[{"a":1,"a":2}]}}]"#, "a"),
        (#"{"x":[{}],"y":{"a":"}{,\"a\":"},"x":0}"#, "x"),
    ])
    func `a repeated name is refused at each depth, after its escapes were resolved`(
        json: String, name: String
    ) {
        #expect(throws: ReceivedJSON.Flaw.repeatedName(name)) { try decode(json) }
    }

    @Test(arguments: ["[1,]", "[{}, ]", #"{"a":1,}"#, "[[1,\n],2]", #"["a,",]"#])
    func `a comma before the end of an object or array is refused`(json: String) throws {
        #expect(throws: ReceivedJSON.Flaw.malformed) { try decode(json) }
        #expect(try decode(#"["a,", [], {"b": ","}]"#) == [.string("a,"), [], ["b": ","]])
    }

    @Test(arguments: [
        #"{"a":{"a":{"a":1}}}"#, #"[{"a":1},{"a":2}]"#, #"{"a":"b","b":"a"}"#,
        #"{"a":["b","a","a"],"b":["a"]}"#, #"{"a":[],"b":{"a":[]},"c":0}"#, #"{"A":1,"a":2}"#,
        #"{"a":"\"a\":1,\"a\":2"}"#,
    ])
    func `the same name in different objects, and in texts, is accepted`(json: String) throws {
        let plain = try JSONDecoder().decode(JSONValue.self, from: Data(json.utf8))
        #expect(try decode(json) == plain)
    }

    @Test(arguments: [String.Encoding.utf16, .utf16BigEndian, .utf16LittleEndian, .utf32])
    func `only UTF-8 is read`(encoding: String.Encoding) throws {
        let json = try #require(#"{"a":1,"a":2}"#.data(using: encoding))
        #expect(throws: ReceivedJSON.Flaw.malformed) {
            try ReceivedJSON.decode(JSONValue.self, from: json)
        }
    }
}

/// Compact JWSs from clients and servers.
struct ReceivedJWSTests {
    private static func compact(header: String, payload: String = #"{"a":1}"#) -> String {
        [header, payload, "s"].map { Base64URL.encode(Data($0.utf8)) }.joined(separator: ".")
    }

    @Test(arguments: [
        "", "a.b", "e30.e30.e30.e30", "e30=.e30.AA", "..", "e30.W10.AA", "W10.e30.AA",
    ])
    func `only three parts in base64url with two JSON objects are read`(text: String) throws {
        let error = #expect(throws: JWSFlaw.self) { try ReceivedJWS(text) }
        #expect(error?.code == .unreadable)
        #expect(try ReceivedJWS("e30.e30.").payload.isEmpty)
    }

    /// RFC 7515 section 4.1.11: extensions that are not supported must be refused. An empty list and
    /// other types are invalid.
    @Test(arguments: [
        #"{"alg":"ES256","crit":["exp"]}"#, #"{"alg":"ES256","crit":["b64"],"b64":false}"#,
        #"{"alg":"ES256","b64":false}"#, #"{"alg":"ES256","b64":true}"#,
        #"{"alg":"ES256","crit":[]}"#, #"{"alg":"ES256","crit":null}"#,
        #"{"alg":"ES256","\u0063rit":["x"]}"#,
    ])
    func `critical extensions are refused`(header: String) {
        let error = #expect(throws: JWSFlaw.self) {
            try ReceivedJWS(Self.compact(header: header))
        }
        #expect(error?.code == .criticalExtension)
    }

    @Test func `repeated names in the header and the payload are refused`() throws {
        for (header, payload) in [
            (#"{"alg":"none","alg":"ES256"}"#, "{}"), (#"{"alg":"ES256","\u0061lg":"none"}"#, "{}"),
            (#"{"jwk":{"x":1,"x":2}}"#, "{}"), ("{}", #"{"aud":"a","\u0061ud":"b"}"#),
            ("{}", #"{"a":{"b":[{"c":1,"c":1}]}}"#),
        ] {
            let error = #expect(throws: JWSFlaw.self, "\(header) \(payload)") {
                try ReceivedJWS(Self.compact(header: header, payload: payload))
            }
            #expect(error?.code == .unreadable)
            #expect(error?.detail.hasSuffix("repeats a name") == true)
        }
    }
}
