import Testing
import VirtualSmartCard

/// The PIV application of a third-party card.
struct ThirdPartyAppletTests {
    private static let digest = [UInt8](repeating: 0x11, count: 32)
    private static let digestRequest = field(0x7C, [0x82, 0] + field(0x81, digest))

    private static func card(_ environment: TestEnvironment = TestEnvironment()) throws -> TestCard
    {
        try TestCard(.thirdPartyPIV(serialNumber: 7), environment: environment)
    }

    @Test func `it reports version 5_7_0, a serial number and a Triple DES management key`() throws
    {
        var card = try Self.card()
        #expect(try card.send("00fd000000").data == [5, 7, 0])
        #expect(try card.send("00f8000000").data == [0, 0, 0, 7])
        #expect(try card.send("00f7009b00").data == bytes("010103 02020001 050101"))
        try card.authenticate()
        let aes = bytes("0a9b18") + [UInt8](repeating: 9, count: 24)
        #expect(try card.send(0xFF, 0xFF, 0xFF, aes).status == .incorrectData)
    }

    @Test func `it has no attestation, retry settings, key moves or one-time passwords`() throws {
        var card = try Self.card()
        try card.authenticate()
        try card.generate(0x9A)
        #expect(try card.verifyPIN() == .success)
        for command in ["00f99a0000", "00fa0505", "00f6829a"] {
            #expect(try card.send(command).status == .unknownInstruction)
        }
        #expect(try card.send("00cb3fff055c035fff0100").status == .notFound)
        #expect(try card.send("00a4040008a000000527200101").status == .notFound)
    }

    @Test(arguments: [0x84, 0x95, 0xF9] as [UInt8])
    func `a slot that the card lacks is refused`(_ slot: UInt8) throws {
        var card = try Self.card()
        try card.authenticate()
        #expect(try card.send(0x47, 0, slot, bytes("ac03800111")).status == .incorrectParameters)
        #expect(try card.send(0x87, 0x11, slot, Self.digestRequest).status == .incorrectParameters)
        #expect(try card.send(0xF7, 0, slot, []).status == .referenceNotFound)
    }

    @Test func `the certificate of a slot that the card lacks is not found`() throws {
        var card = try Self.card()
        try card.authenticate()
        #expect(try card.send("00cb3fff055c035fc10f00").status == .notFound)
        #expect(try card.send(0xDB, 0x3F, 0xFF, bytes("5c035fc10f 530101")).status == .notFound)
        #expect(
            try card.send(0xDB, 0x3F, 0xFF, bytes("5c035fc10e 530101")).status == .success,
            "83 exists")
    }

    @Test func `an empty slot does not satisfy the conditions of use`() throws {
        var card = try Self.card()
        #expect(
            try card.send(0x87, 0x11, 0x9A, Self.digestRequest).status == .conditionsNotSatisfied)
    }

    @Test(arguments: [0x11, 0x14] as [UInt8])
    func `9c signs several times after one PIN`(_ algorithm: UInt8) throws {
        var card = try Self.card()
        try card.authenticate()
        try card.generate(0x9C, algorithm)
        #expect(try card.sign(0x9C, Self.digest, algorithm).status == .securityStatusNotSatisfied)
        #expect(try card.verifyPIN() == .success)
        for _ in 0..<2 { #expect(try card.sign(0x9C, Self.digest, algorithm).status == .success) }
    }

    @Test func `an RSA key accepts only blocks of the length of its modulus`() throws {
        var card = try Self.card()
        try card.authenticate()
        let made = try card.send(0x47, 0, 0x9E, bytes("ac03800107"))
        #expect(made.data.starts(with: bytes("7f49820109 81820100")))
        #expect(made.data.suffix(5) == bytes("8203010001")[...])
        #expect(
            try card.send("00f7009e00").data.starts(with: bytes("010107 02020101 030101 04820109")))
        let block = [0, 1] + [UInt8](repeating: 0xFF, count: 254)
        let signed = try card.sign(0x9E, block, 0x07)
        #expect(signed.status == .success && signed.data.count == 264)
        #expect(try card.sign(0x9E, Self.digest, 0x07).status == .wrongLength)
        #expect(try card.sign(0x9E, Self.digest, 0x11).status == .incorrectData)
    }

    @Test func `selecting the application again clears the PIN verification`() throws {
        var card = try Self.card()
        #expect(try card.verifyPIN() == .success)
        #expect(try card.send("00200080").status == .success)
        _ = try card.send("00a4040005a000000308")
        #expect(try card.send("00200080").status == .wrongSecret(attemptsLeft: 3))
    }

    @Test func `a missing touch is reported as a security issue`() throws {
        var card = try Self.card()
        try card.authenticate()
        try card.generate(0x9E, policies: "ab0102")
        #expect(throws: TestCard.TouchRequired.self) { try card.sign(0x9E, Self.digest) }
        #expect(try TestCard.split(card.applet.finish(touched: false)).status.rawValue == 0x6600)
    }

    @Test func `a new card has an identifier, and keeps it when its keys are removed`() throws {
        var card = try Self.card()
        let identifier = try card.send("00cb3fff055c035fc10200")
        #expect(identifier.status == .success && identifier.data.count == 61)
        card.applet.removeKeys()
        #expect(try card.send("00cb3fff055c035fc10200").data == identifier.data)
        #expect(try card.send("00cb3fff055c035fc10700").status == .success)
    }
}
