import Testing

@testable import Latchkey

@Suite struct CBORTests {
    @Test func `maps are encoded in the canonical order of CTAP 2`() {
        let value = CBORValue.map([
            "hmac-secret": .boolean(true), "credProtect": .integer(2), 10: .integer(1000), -1: .bytes([1]), 100: .array([]),
            "rk": .boolean(false),
        ])
        #expect(
            value.encoded
                == [0xA6, 0x0A, 0x19, 0x03, 0xE8, 0x18, 0x64, 0x80, 0x20, 0x41, 0x01, 0x62] + Array("rk".utf8) + [0xF4, 0x6B]
                + Array("credProtect".utf8) + [0x02, 0x6B] + Array("hmac-secret".utf8) + [0xF5])
    }
}
