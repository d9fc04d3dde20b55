import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import Testing

@testable import LatchkeyRelyingParty

/// The limit of JSON values in requests.
struct RequestSizeTests {
    @Test func `the header of a signed request has fewer values than the payload`() throws {
        func request(header: Int, payload: Int) throws -> ReceivedJWS {
            func object(_ separators: Int) -> String {
                #"{"a":["# + String(repeating: "0,", count: separators - 3) + "0]}"
            }
            let parts = [object(header), object(payload), "AA"].map {
                Base64URL.encode(Data($0.utf8))
            }
            return try ReceivedJWS(
                request: parts.joined(separator: "."), invalid: LockerRequestError.Code.malformed)
        }
        #expect(try request(header: 512, payload: 2200).header["a"]?.array?.count == 510)
        #expect(throws: LockerRequestError.self) { try request(header: 513, payload: 3) }
        #expect(throws: LockerRequestError.self) { try request(header: 3, payload: 2201) }
    }
}
