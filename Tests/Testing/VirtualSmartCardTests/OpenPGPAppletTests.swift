import Crypto
import FoundationEssentials
import Testing

@testable import VirtualSmartCard

/// The OpenPGP application: selection, data objects and keys.
struct OpenPGPAppletTests {
    private static let message = Data("a message".utf8)
    private static let digest = Array(SHA256.hash(data: message))

    @Test func `the application is selected by its identifier or by a prefix of the identifier`()
        throws
    {
        var card = OpenPGPApplet()
        #expect(try card.send("00ca006e00").status == .unknownInstruction)
        #expect(try card.send("00a4040005a000000308").status == .notFound)
        #expect(try card.send("00a4040006d27600012401").status == .success)
        #expect(try card.send("00a4040010d27600012401 0304f1d0000000000000").status == .success)
        #expect(try card.send("00ca004f00").data == bytes("d27600012401 0304f1d0000000000000"))
        #expect(try card.send("80ca004f00").status == .unknownClass)
    }

    @Test func `the application-related data describes the card and its keys`() throws {
        var card = try Self.selected(.openPGP(serialNumber: 0x0102_0304))
        let application = try #require(TLV.parse(card.send("00ca006e000000").data)[tag: 0x6E])
        let fields = try TLV.parse(application)
        #expect(fields[tag: 0x4F] == bytes("d27600012401 0304f1d0010203040000"))
        #expect(fields[tag: 0x5F52]?.count == 10)
        let keys = try TLV.parse(#require(fields[tag: 0x73]))
        let curve = "2a8648ce3d030107"
        #expect(keys[tag: 0xC1] == bytes("13" + curve))
        #expect(keys[tag: 0xC2] == bytes("12" + curve))
        #expect(keys[tag: 0xC3] == bytes("13" + curve))
        #expect(keys[tag: 0xC4] == bytes("007f7f7f030003"))
        let fingerprints = try #require(keys[tag: 0xC5])
        #expect(fingerprints.count == 60)
        #expect(fingerprints[20..<40].allSatisfy { $0 == 0 }, "there is no decryption key")
        #expect(
            fingerprints[0..<20].contains { $0 != 0 } && fingerprints[40..<60].contains { $0 != 0 })
        #expect(keys[tag: 0xDE] == bytes("010102000301"))
        #expect(try card.send("00ca006500").data == bytes("650b 5b00 5f2d02656e 5f350139"))
        #expect(try card.send("00ca007a00").data == bytes("7a05 9303000000"))
        #expect(try card.send("00ca00fa00").status == .referenceNotFound)
    }

    @Test func `a signature requires PW1 with the reference 81 each time`() throws {
        var card = try Self.selected()
        #expect(try card.sign(Self.digest).status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x82) == .success)
        #expect(try card.sign(Self.digest).status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x81) == .success)
        try Self.expectSignature(card.sign(Self.digest), by: card.readKey(0xB6))
        #expect(try card.sign(Self.digest).status == .securityStatusNotSatisfied)
        #expect(try card.send("00ca007a00").data == bytes("7a05 9303000001"))
    }

    @Test func `the password status allows several signatures after one PW1`() throws {
        var card = try Self.selected()
        #expect(try card.send("00da00c40101").status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x83, "12345678") == .success)
        #expect(try card.send("00da00c40101").status == .success)
        #expect(try card.send("00da00c40102").status == .incorrectData)
        #expect(try card.verify(0x81) == .success)
        for _ in 0..<2 { #expect(try card.sign(Self.digest).status == .success) }
    }

    @Test func `authentication requires PW1 with the reference 82`() throws {
        var card = try Self.selected()
        #expect(try card.verify(0x81) == .success)
        #expect(
            try card.send([0x00, 0x88, 0, 0, 32] + Self.digest + [0]).status
                == .securityStatusNotSatisfied)
        #expect(try card.verify(0x82) == .success)
        for _ in 0..<2 {
            try Self.expectSignature(
                card.send([0x00, 0x88, 0, 0, 32] + Self.digest + [0]), by: card.readKey(0xA4))
        }
        #expect(
            try card.send([0x00, 0x88, 0, 1, 32] + Self.digest + [0]).status == .incorrectParameters
        )
        #expect(
            try card.send([0x00, 0x88, 0, 0, 33, 0] + Self.digest + [0]).status == .wrongLength)
    }

    @Test func `generating a key requires PW3 and replaces the key`() throws {
        var card = try Self.selected()
        let earlier = try card.readKey(0xB6)
        #expect(try card.send("0047800002b60000").status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x83, "12345678") == .success)
        #expect(try card.send("0047800002b60000").status == .success)
        #expect(try card.readKey(0xB6) != earlier)
        #expect(try card.send("0047810002b70000").status == .incorrectData)
        #expect(try card.send("0047820002b60000").status == .incorrectParameters)
    }

    @Test func `a decryption key computes the same secret as the other side`() throws {
        var card = try Self.selected()
        #expect(try card.send("0047810002b80000").status == .referenceNotFound)
        #expect(try card.verify(0x83, "12345678") == .success)
        #expect(try card.send("0047800002b80000").status == .success)
        let peer = P256.KeyAgreement.PrivateKey()
        let point = TLV(0x86, Array(peer.publicKey.x963Representation)).bytes
        let cipher = TLV(0xA6, TLV(0x7F49, point).bytes).bytes
        let request = [0x00, 0x2A, 0x80, 0x86, UInt8(cipher.count)] + cipher + [0]
        #expect(try card.send(request).status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x82) == .success)
        let key = try P256.KeyAgreement.PublicKey(x963Representation: card.readKey(0xB8))
        let secret = try peer.sharedSecretFromKeyAgreement(with: key)
        #expect(try secret.withUnsafeBytes { Array($0) } == card.send(request).data)
    }

    @Test func `writing objects requires PW3 and the right length`() throws {
        var card = try Self.selected()
        #expect(try card.send("00da005b03 414243").status == .securityStatusNotSatisfied)
        #expect(try card.verify(0x83, "12345678") == .success)
        #expect(try card.send("00da005b03 414243").status == .success)
        #expect(try card.send("00ca006500").data == bytes("650e 5b03414243 5f2d02656e 5f350139"))
        #expect(try card.send("00da00c703 414243").status == .wrongLength)
        #expect(try card.send("00da00c714" + String(repeating: "77", count: 20)).status == .success)
        #expect(try card.send("00da00fa03 414243").status == .referenceNotFound)
    }

    @Test func `there is a certificate for each key`() throws {
        var card = try Self.selected()
        #expect(try card.verify(0x83, "12345678") == .success)
        #expect(try card.send("00da7f2103 414243").status == .success)
        #expect(try card.send("00a50204066004 5c027f21").status == .success)
        #expect(try card.send("00ca7f2100").data.isEmpty)
        #expect(try card.send("00a50004066004 5c027f21").status == .success)
        #expect(try card.send("00ca7f2100").data == bytes("414243"))
        #expect(try card.send("00a50304066004 5c027f21").status == .incorrectParameters)
    }

    private static func selected(_ profile: CardProfile = .openPGP()) throws -> OpenPGPApplet {
        var card = OpenPGPApplet(profile: profile)
        try #require(card.send("00a4040006d27600012401").status == .success)
        return card
    }

    private static func expectSignature(
        _ response: TestCard.Response, by point: [UInt8],
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try #require(response.status == .success, sourceLocation: sourceLocation)
        let key = try P256.Signing.PublicKey(x963Representation: point)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: response.data)
        #expect(key.isValidSignature(signature, for: message), sourceLocation: sourceLocation)
    }
}

extension OpenPGPApplet {
    fileprivate mutating func sign(_ digest: [UInt8]) throws -> TestCard.Response {
        try send([0x00, 0x2A, 0x9E, 0x9A, UInt8(digest.count)] + digest + [0])
    }

    /// The point of a public key, by the tag of its control reference template.
    fileprivate mutating func readKey(_ tag: UInt8) throws -> [UInt8] {
        Array(try send([0x00, 0x47, 0x81, 0x00, 2, tag, 0, 0]).data.dropFirst(5))
    }

    fileprivate mutating func verify(_ reference: UInt8, _ password: String = "123456") throws
        -> StatusWord
    {
        try send([0x00, 0x20, 0x00, reference, UInt8(password.utf8.count)] + Array(password.utf8))
            .status
    }
}
