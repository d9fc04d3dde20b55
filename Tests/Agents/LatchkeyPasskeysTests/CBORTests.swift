import Latchkey
import LatchkeyTestSupport
import Testing

/// CBOR in the canonical form of CTAP 2.
@Suite struct CBORTests {
    @Test func `maps are encoded in the canonical order of CTAP 2`() {
        let value = CBORValue.map([
            "hmac-secret": .boolean(true), "credProtect": .integer(2), 10: .integer(1000),
            -1: .bytes([1]),
            100: .array([]),
            "rk": .boolean(false),
        ])
        let expected: [UInt8] =
            [0xA6, 0x0A, 0x19, 0x03, 0xE8, 0x18, 0x64, 0x80, 0x20, 0x41, 0x01, 0x62]
            + Array("rk".utf8) + [0xF4, 0x6B]
            + Array("credProtect".utf8) + [0x02, 0x6B] + Array("hmac-secret".utf8) + [0xF5]
        #expect(value.encoded == expected)
    }

    /// RFC 8949 appendix A.
    @Test(
        arguments: [
            (0, [0x00]), (23, [0x17]), (24, [0x18, 0x18]), (255, [0x18, 0xFF]),
            (256, [0x19, 0x01, 0x00]),
            (65535, [0x19, 0xFF, 0xFF]), (65536, [0x1A, 0, 1, 0, 0]), (-1, [0x20]), (-24, [0x37]),
            (-25, [0x38, 0x18]),
            (-257, [0x39, 0x01, 0x00]),
            (1_000_000_000_000, [0x1B, 0, 0, 0, 0xE8, 0xD4, 0xA5, 0x10, 0]),
        ] as [(Int, [UInt8])]) func `integers have the shortest form`(value: Int, bytes: [UInt8])
    {
        #expect(CBORValue.integer(value).encoded == bytes)
    }

    private static func random(_ generator: inout SplitMix, depth: Int) -> CBORValue {
        switch Int.random(in: 0...(depth < 4 ? 5 : 3), using: &generator) {
        case 0: .integer(Int.random(in: -70000...70000, using: &generator))
        case 1:
            .bytes(
                (0..<Int.random(in: 0...300, using: &generator)).map { _ in
                    .random(in: 0...255, using: &generator)
                })
        case 2:
            .text(
                String(
                    (0..<Int.random(in: 0...30, using: &generator)).map { _ in
                        "aé😀".randomElement(using: &generator) ?? "a"
                    }))
        case 3: .boolean(.random(using: &generator))
        case 4:
            .array(
                (0..<Int.random(in: 0...5, using: &generator)).map { _ in
                    random(&generator, depth: depth + 1)
                })
        default:
            .map(
                Dictionary(
                    (0..<Int.random(in: 0...5, using: &generator)).map { _ in
                        let number = Int.random(in: -300...300, using: &generator)
                        return (
                            number.isMultiple(of: 2) ? .integer(number) : .text("k\(number)"),
                            random(&generator, depth: depth + 1)
                        )
                    }, uniquingKeysWith: { $1 }))
        }
    }

    @Test func `random values are read back, and their prefixes are refused`() throws {
        var generator = SplitMix(seed: 7)
        for _ in 0..<500 {
            let value = Self.random(&generator, depth: 0)
            let bytes = value.encoded
            #expect(try CBORReader.read(bytes[...], limits: .ctap) == value)
            if bytes.count > 1 {
                #expect(throws: CBORReader.Malformed.self) {
                    try CBORReader.read(bytes.dropLast(), limits: .ctap)
                }
            }
            #expect(throws: CBORReader.Malformed.self) {
                try CBORReader.read((bytes + [0])[...], limits: .ctap)
            }
        }
    }

    @Test
    func `a request has any key order, repaired texts, at most four levels, and no double keys`()
        throws
    {
        let unsorted: [UInt8] = [0xA2, 0x62, 0x75, 0x76, 0xF5, 0x62, 0x75, 0x70, 0xF4]
        #expect(
            try CBORReader.read(unsorted[...], limits: .ctap)
                == .map(["uv": .boolean(true), "up": .boolean(false)]))
        #expect(try CBORReader.read([0x62, 0x61, 0xC3], limits: .ctap) == .text("a\u{FFFD}"))
        let deep: [UInt8] = [0x81, 0x81, 0x81, 0x81, 0x01]
        #expect(throws: Never.self) { try CBORReader.read(deep[...], limits: .ctap) }
        for refused in [
            [0x81] + deep, [0xA2, 0x01, 0x00, 0x01, 0x00], [0xBF, 0xFF], [0x18, 0x01], [0xF6],
            [0xC0, 0x00],
        ] {
            #expect(throws: CBORReader.Malformed.self) {
                try CBORReader.read(refused[...], limits: .ctap)
            }
        }
    }
}
