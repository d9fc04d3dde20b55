import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import Testing

@testable import LatchkeyRelyingParty

/// The limit of JSON values in requests.
struct ClientJSONTests {
    private func decode(_ json: String, maximum: Int = 512) throws -> JSONValue {
        try ClientJSON.decode(JSONValue.self, from: Data(json.utf8), maximumSeparators: maximum)
    }

    @Test(arguments: ["[", "{", ",", ":"]) func `each separator counts`(separator: String) {
        let text = String(repeating: separator, count: 513)
        #expect(throws: ClientJSON.TooComplex.self) { try decode(text) }
        // The parser refuses it.
        let error = #expect(throws: (any Error).self) { try decode(String(text.dropLast())) }
        #expect(!(error is ClientJSON.TooComplex))
    }

    @Test func `the separators of texts do not count, and a quote in a text does not end it`()
        throws
    {
        let text = String(repeating: #"[{,:\"\\"#, count: 200)
        let value = try decode("[\"\(text)\",0]", maximum: 2)
        #expect(value == [.string(String(repeating: #"[{,:"\"#, count: 200)), 0])
        #expect(throws: ClientJSON.TooComplex.self) { try decode("[\"\(text)\",0]", maximum: 1) }
        // The text ends at the second quote.
        #expect(throws: ClientJSON.TooComplex.self) { try decode(#"["\\",0]"#, maximum: 1) }
    }

    @Test func `the header of a signed request has fewer values than the payload`() throws {
        func request(header: Int, payload: Int) throws -> ClientJWS {
            func object(_ separators: Int) -> String {
                #"{"a":["# + String(repeating: "0,", count: separators - 3) + "0]}"
            }
            let parts = [object(header), object(payload), "AA"].map {
                Base64URL.encode(Data($0.utf8))
            }
            return try ClientJWS(
                parts.joined(separator: "."), invalid: LockerRequestError.Code.malformed)
        }
        #expect(try request(header: 512, payload: 2200).header["a"]?.array?.count == 510)
        #expect(throws: LockerRequestError.self) { try request(header: 513, payload: 3) }
        #expect(throws: LockerRequestError.self) { try request(header: 3, payload: 2201) }
    }
}
