import Crypto
import FoundationEssentials
import Testing
import VirtualSmartCard

/// Creation, import and use of keys.
struct AppletKeyTests {
    private static let digest = Array(SHA256.hash(data: Data("a message".utf8)))

    @Test(arguments: [0x9A, 0x9C, 0x9D, 0x9E, 0xF9, 0x82, 0x95] as [UInt8])
    func `a key in every slot signs`(_ slot: UInt8) throws {
        var card = try TestCard()
        try card.authenticate()
        let point = try card.generate(slot)
        #expect(try card.verifyPIN() == .success)
        let signed = try card.sign(slot, Self.digest)
        #expect(signed.status == .success)
        let key = try P256.Signing.PublicKey(x963Representation: point)
        let signature = try P256.Signing.ECDSASignature(derRepresentation: signed.data.dropFirst(4))
        #expect(key.isValidSignature(signature, for: SHA256.hash(data: Data("a message".utf8))))
    }

    @Test func `P-384 signs a longer digest`() throws {
        var card = try TestCard()
        try card.authenticate()
        let point = try card.generate(0x9A, 0x14)
        #expect(try card.verifyPIN() == .success)
        let hash = SHA384.hash(data: Data("a message".utf8))
        let signed = try card.sign(0x9A, Array(hash), 0x14)
        let key = try P384.Signing.PublicKey(x963Representation: point)
        let signature = try P384.Signing.ECDSASignature(derRepresentation: signed.data.dropFirst(4))
        #expect(key.isValidSignature(signature, for: hash))
        #expect(
            try card.sign(0x9A, Self.digest, 0x11).status == .incorrectData,
            "the key is not a P-256 key")
    }

    @Test func `ECDH computes the same secret as the other side`() throws {
        var card = try TestCard()
        try card.authenticate()
        let point = try card.generate(0x9D)
        let peer = P256.KeyAgreement.PrivateKey()
        let request = field(
            0x7C, [0x82, 0] + field(0x85, Array(peer.publicKey.x963Representation)))
        #expect(try card.send(0x87, 0x11, 0x9D, request).status == .securityStatusNotSatisfied)
        #expect(try card.verifyPIN() == .success)
        let agreed = try card.send(0x87, 0x11, 0x9D, request)
        let secret = try peer.sharedSecretFromKeyAgreement(with: .init(x963Representation: point))
        #expect(agreed.status == .success)
        #expect(agreed.data.dropFirst(4).elementsEqual(secret.withUnsafeBytes { Array($0) }))
        let offCurve = [0x04] + [UInt8](repeating: 1, count: 64)
        let refused = try card.send(
            0x87, 0x11, 0x9D, field(0x7C, [0x82, 0] + field(0x85, offCurve)))
        #expect(refused.status == .incorrectData)
    }

    @Test func `the slots have different PIN policies`() throws {
        var card = try TestCard()
        try card.authenticate()
        for slot: UInt8 in [0x9A, 0x9C, 0x9E] { try card.generate(slot) }
        #expect(try card.sign(0x9A, Self.digest).status == .securityStatusNotSatisfied)
        #expect(try card.sign(0x9E, Self.digest).status == .success)
        #expect(try card.verifyPIN() == .success)
        #expect(try card.sign(0x9C, Self.digest).status == .success)
        #expect(try card.sign(0x9C, Self.digest).status == .securityStatusNotSatisfied)
        #expect(try card.sign(0x9A, Self.digest).status == .success)
        #expect(try card.verifyPIN() == .success)
        _ = try card.send("00fd000000")
        #expect(
            try card.sign(0x9C, Self.digest).status == .securityStatusNotSatisfied,
            "the PIN is no longer fresh")
    }

    @Test func `a touch is required according to the key's policy`() throws {
        let environment = TestEnvironment()
        var card = try TestCard(environment: environment)
        try card.authenticate()
        try card.generate(0x9A, policies: "aa0101ab0102")
        #expect(throws: TestCard.TouchRequired.self) { try card.sign(0x9A, Self.digest) }
        #expect(
            try TestCard.split(card.applet.finish(touched: false)).status
                == .securityStatusNotSatisfied)
        #expect(
            try TestCard.split(card.applet.finish(touched: true)).status == .conditionsNotSatisfied)
        #expect(throws: TestCard.TouchRequired.self) { try card.sign(0x9A, Self.digest) }
        #expect(try TestCard.split(card.applet.finish(touched: true)).status == .success)

        try card.generate(0x9E, policies: "ab0103")
        environment.advance(by: 14.9)
        #expect(try card.sign(0x9E, Self.digest).status == .success, "the touch is remembered")
        environment.advance(by: 0.2)
        #expect(throws: TestCard.TouchRequired.self) { try card.sign(0x9E, Self.digest) }
    }

    @Test func `another command cancels a pending touch`() throws {
        var card = try TestCard()
        try card.authenticate()
        try card.generate(0x9E, policies: "ab0102")
        #expect(throws: TestCard.TouchRequired.self) { try card.sign(0x9E, Self.digest) }
        _ = try card.send("00fd000000")
        #expect(
            try TestCard.split(card.applet.finish(touched: true)).status == .conditionsNotSatisfied)
    }

    @Test func `an imported key signs and is not attested`() throws {
        var card = try TestCard()
        let key = P256.Signing.PrivateKey()
        let request = field(0x06, Array(key.rawRepresentation))
        #expect(try card.send(0xFE, 0x11, 0x9E, request).status == .securityStatusNotSatisfied)
        try card.authenticate()
        #expect(try card.send(0xFE, 0x11, 0x9E, field(0x06, [1, 2, 3])).status == .incorrectData)
        #expect(
            try card.send(0xFE, 0x11, 0x9E, field(0x06, [UInt8](repeating: 0, count: 32))).status
                == .incorrectData)
        #expect(try card.send(0xFE, 0x07, 0x9E, request).status == .incorrectParameters)
        #expect(try card.send(0xFE, 0x11, 0x9E, request).status == .success)
        let signed = try card.sign(0x9E, Self.digest)
        let signature = try P256.Signing.ECDSASignature(derRepresentation: signed.data.dropFirst(4))
        #expect(
            key.publicKey.isValidSignature(
                signature, for: SHA256.hash(data: Data("a message".utf8))))
        #expect(try card.send("00f99e0000").status == .incorrectData)
    }

    @Test(arguments: [
        "ac03800107", "ac03800199", "ac028001", "ac06800111aa0104", "ac06800111ab0100ff", "8001 11",
    ])
    func `an invalid template creates no key`(_ template: String) throws {
        var card = try TestCard()
        try card.authenticate()
        #expect(try card.send(0x47, 0, 0x9A, bytes(template)).status == .incorrectData)
        #expect(try card.send("00f7009a").status == .referenceNotFound)
    }

    @Test func `metadata describes a key`() throws {
        var card = try TestCard()
        try card.authenticate()
        let point = try card.generate(0x9A, policies: "aa0103ab0103")
        let metadata = try card.send("00f7009a00")
        #expect(metadata.data == bytes("010111 02020303 030101") + field(0x04, field(0x86, point)))
        #expect(try card.send("00f7009b00").data == bytes("010103 02020001 050101"))
    }

    @Test func `a forced status word is returned once`() throws {
        var card = try TestCard()
        try card.authenticate()
        try card.generate(0x9E)
        card.applet.failNextUse(of: .cardAuthentication, with: .internalError)
        #expect(try card.sign(0x9E, Self.digest).status == .internalError)
        #expect(try card.sign(0x9E, Self.digest).status == .success)
    }
}
