import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// A reset that does not reach the card is an error.
@Suite(.virtualYubiKey)
struct CardResetTests {
    @Test func `a card in the named reader is reset`() throws {
        try CardReset.reset(reader: SmartCardReader.name(ofSlot: 0), within: hangLimit)
    }

    @Test func `an unknown reader is an error while another reader has a card`() throws {
        #expect(throws: CryptokiError(.leftUnlocked, reason: "")) {
            try CardReset.reset(reader: "no such reader", within: hangLimit)
        }
    }

    @Test func `a slot's description matches each reader with these first 64 bytes`() {
        let start = String(repeating: "x", count: 64)
        #expect(PCSCLibrary.describes("\(start) 00 00", start))
        #expect(PCSCLibrary.describes("\(start) 01 00", start))
        #expect(PCSCLibrary.describes("reader 00 00", "reader 00 00"))
        #expect(!PCSCLibrary.describes("reader 00 00", "reader 00"))
        #expect(
            PCSCLibrary.describes(
                String(repeating: "x", count: 63) + " 00 00", String(repeating: "x", count: 63)))
    }
}
