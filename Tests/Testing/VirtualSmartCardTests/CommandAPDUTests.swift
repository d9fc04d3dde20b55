import Testing
import VirtualSmartCard

/// ISO/IEC 7816-4 section 5.1: the four cases in both forms, and invalid commands.
struct CommandAPDUTests {
    @Test(arguments: [
        ("00fd0000", "", 256),
        ("00fd000010", "", 16),
        ("00fd000000", "", 256),
        ("00fd000002aabb", "aabb", 256),
        ("00fd000002aabb10", "aabb", 16),
        ("00fd000002aabb00", "aabb", 256),
        ("00fd0000000100", "", 256),
        ("00fd0000000000", "", 65_536),
        ("00fd0000000002aabb", "aabb", 65_536),
        ("00fd0000000002aabb0200", "aabb", 512),
        ("00fd0000000002aabb0000", "aabb", 65_536),
    ]) func `is parsed`(_ digits: String, _ data: String, _ limit: Int) throws {
        let command = try CommandAPDU(bytes(digits))
        #expect(command.instruction == 0xFD)
        #expect(command.data == bytes(data))
        #expect(command.responseLimit == limit)
    }

    @Test(arguments: [
        "", "00", "00fd00",
        "00fd000003aabb", "00fd000002aabb1000", "00fd000002aabb100000",
        "00fd00000001", "00fd0000000000aa", "00fd0000000003aabb", "00fd0000000002aabb01",
        "00fd0000000002aabb000000",
    ]) func `with inconsistent lengths is refused`(_ digits: String) {
        #expect(throws: StatusWord.wrongLength) { try CommandAPDU(bytes(digits)) }
    }
}
