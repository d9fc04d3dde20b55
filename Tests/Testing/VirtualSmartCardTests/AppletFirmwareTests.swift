import Testing
import VirtualSmartCard

/// Features by firmware version, and the management key.
struct AppletFirmwareTests {
    @Test func `4.3.5 has attestation, but neither metadata nor GET SERIAL NUMBER`() throws {
        var card = try TestCard(CardProfile(firmware: Firmware(4, 3, 5), serialNumber: 7))
        #expect(try card.send("00fd000000").data == [4, 3, 5])
        #expect(try card.send("00f7008000").status == .unknownInstruction)
        #expect(try card.send("00f8000000").status == .unknownInstruction)
        try card.authenticate()
        try card.generate(0x9A)
        #expect(try card.send(0xF9, 0x9A, 0, []).status == .success)
        #expect(try card.send("00f69b9a").status == .unknownInstruction)
        #expect(try card.send("00a4040007a0000005272001").status == .success)
        #expect(
            try card.send("0001100000").data == [0, 0, 0, 7],
            "the one-time-password application tells it")
    }

    @Test func `4.2 has no attestation`() throws {
        var card = try TestCard(CardProfile(firmware: Firmware(4, 2, 8)))
        #expect(try card.send("00f99a0000").status == .unknownInstruction)
    }

    @Test func `5.7 has an AES-192 factory key, and deletes and moves keys`() throws {
        var card = try TestCard(CardProfile(firmware: Firmware(5, 7, 1)))
        #expect(try card.send("00f7009b00").data == bytes("01010a 02020001 050101"))
        #expect(try card.send("0087039b047c028100").status == .incorrectData)
        try card.authenticate(.aes192)
        let point = try card.generate(0x9A)
        #expect(try card.send("00f6829a").status == .success)
        #expect(try card.send("00f7009a").status == .referenceNotFound)
        #expect(try card.send("00f70082").data.suffix(65) == point[...])
        #expect(try card.send("00f6ff82").status == .success)
        #expect(try card.send("00f70082").status == .referenceNotFound)
        #expect(try card.send("00f6fff9").status == .incorrectParameters)
    }

    @Test(arguments: ManagementKeyAlgorithm.allCases)
    func `the management key authenticates in both ways`(_ algorithm: ManagementKeyAlgorithm) throws
    {
        var card = try TestCard(CardProfile(managementKeyAlgorithm: algorithm))
        try card.authenticate(algorithm)

        card = try TestCard(CardProfile(managementKeyAlgorithm: algorithm))
        let encrypted = TestEnvironment.encryptedChallenge(algorithm)
        let witness = try card.send(0x87, algorithm.rawValue, 0x9B, bytes("7c028000"))
        #expect(witness.data == field(0x7C, field(0x80, encrypted)))
        let plain = [UInt8](repeating: TestEnvironment.randomByte, count: encrypted.count)
        let proof = try card.send(
            0x87, algorithm.rawValue, 0x9B, field(0x7C, field(0x80, plain) + field(0x81, plain)))
        #expect(proof.status == .success)
        #expect(proof.data == field(0x7C, field(0x82, encrypted)))
        try card.generate(0x9A)
    }

    @Test func `a wrong response, or one without a challenge, is refused`() throws {
        var card = try TestCard()
        let answer = field(0x7C, field(0x82, TestEnvironment.encryptedChallenge(.tripleDES)))
        #expect(try card.send(0x87, 3, 0x9B, answer).status == .securityStatusNotSatisfied)
        _ = try card.send("0087039b047c028100")
        #expect(
            try card.send(0x87, 3, 0x9B, bytes("7c0a82080000000000000000")).status
                == .securityStatusNotSatisfied)
        #expect(
            try card.send(0x87, 3, 0x9B, answer).status == .securityStatusNotSatisfied,
            "a challenge is used once")
        #expect(try card.send("0047009a 05 ac03800111").status == .securityStatusNotSatisfied)
    }

    @Test func `the management key can be changed, to AES if the firmware supports it`() throws {
        let aes = bytes("0a9b18") + [UInt8](repeating: 9, count: 24)
        var old = try TestCard(CardProfile(firmware: Firmware(5, 4, 0)))
        try old.authenticate()
        #expect(try old.send(0xFF, 0xFF, 0xFF, aes).status == .incorrectData)

        var card = try TestCard()
        #expect(try card.send(0xFF, 0xFF, 0xFF, aes).status == .securityStatusNotSatisfied)
        try card.authenticate()
        #expect(
            try card.send(0xFF, 0xFF, 0xFF, bytes("0a9b17") + aes.dropFirst(4)).status
                == .incorrectData)
        #expect(try card.send(0xFF, 0xFF, 0xFE, aes).status == .incorrectParameters)
        #expect(try card.send(0xFF, 0xFF, 0xFF, aes).status == .success)
        #expect(try card.send("00f7009b00").data == bytes("01010a 02020001 050100"))
        #expect(try card.send("0087039b047c028100").status == .incorrectData)
    }

    @Test func `writing objects requires the administrator, reading some requires the PIN`() throws
    {
        var card = try TestCard()
        let printed = bytes("5c035fc109 5303010203")
        #expect(try card.send(0xDB, 0x3F, 0xFF, printed).status == .securityStatusNotSatisfied)
        try card.authenticate()
        #expect(try card.send(0xDB, 0x3F, 0xFF, printed).status == .success)
        #expect(try card.send("00cb3fff055c035fc10900").status == .securityStatusNotSatisfied)
        #expect(try card.verifyPIN() == .success)
        #expect(try card.send("00cb3fff055c035fc10900").data == bytes("5303010203"))
        #expect(try card.send(0xDB, 0x3F, 0xFF, bytes("5c035fc109 5300")).status == .success)
        #expect(try card.send("00cb3fff055c035fc10900").status == .notFound)
        let large = bytes("5c035fc10a") + field(0x53, [UInt8](repeating: 0, count: 3053))
        #expect(try card.send(0xDB, 0x3F, 0xFF, large).status == .noSpace)
        #expect(try card.send(0xDB, 0x3F, 0xFF, bytes("5c017e 530101")).status == .incorrectData)
    }
}
