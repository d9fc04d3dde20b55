import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import SwiftASN1
import Testing

@testable import LatchkeyPKCS11

/// Sealing by an RSA signature, for tokens without key agreement.
struct KeySignatureTests {
    private static let modulus = [0xc1] + [UInt8](repeating: 0x5a, count: 254) + [0x01]

    @Test
    func `accepts an RSA key with 2048 bits and the exponent 65537, with or without leading zeros`()
        throws
    {
        let key = try RSAPublicKey(modulus: Self.modulus, exponent: [1, 0, 1])
        #expect(try RSAPublicKey(modulus: [0] + Self.modulus, exponent: [0, 1, 0, 1]) == key)
    }

    @Test(
        arguments: [
            (modulus: [], exponent: [1, 0, 1]), (modulus + [1], [1, 0, 1]),
            (Array(modulus.dropFirst()), [1, 0, 1]),
            (modulus.dropLast() + [0], [1, 0, 1]), ([0x7f] + modulus.dropFirst(), [1, 0, 1]),
            (modulus, [3]),
            (modulus, []),
            (modulus, [1, 0, 1, 0]),
        ] as [(modulus: [UInt8], exponent: [UInt8])])
    func `refuses other RSA keys`(_ modulus: [UInt8], _ exponent: [UInt8]) {
        #expect(throws: CryptokiError(.malformed, reason: "")) {
            try RSAPublicKey(modulus: modulus, exponent: exponent)
        }
    }

    @Test(arguments: [(0, 32), (1, 31), (1, 65), (2, 0), (2, 33), (2, 256), (3, 32), (-1, 32)])
    func `a header with another version or salt length is refused`(_ version: Int, _ count: Int)
        throws
    {
        #expect(throws: (any Error).self) {
            try SealedBox.Header(derEncoded: try header(version: version, saltBytes: count))
        }
    }

    @Test func `a header with a known version and a salt of 32 bytes is read`() throws {
        #expect(
            try SealedBox.Header(derEncoded: try header(version: 2, saltBytes: 32)).establishment
                == .signature)
    }

    private func header(version: Int, saltBytes: Int) throws -> [UInt8] {
        let name = try #require(TokenName("pkcs11:token=a;serial=b;model=c;manufacturer=d;id=%01"))
        let terms = KeyTerms(policy: .pin, assurance: AssuranceLevel(root: .token, presence: .pin))
        var serializer = DER.Serializer()
        try serializer.appendConstructedNode(identifier: .sequence) { coder in
            try coder.serialize(version)
            try coder.serialize(name)
            try coder.serialize(ASN1OctetString(contentBytes: ArraySlice(repeating: 1, count: 32)))
            try coder.serialize(terms)
            try coder.serialize(
                ASN1OctetString(contentBytes: ArraySlice(repeating: 4, count: saltBytes)))
        }
        return serializer.serializedBytes
    }

    /// Everything stored is public: an attacker who can write the store knows the header, the
    /// statement and the key's public half, but can't compute the signature.
    @Test(
        .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
        .requires(program: "pkcs11-tool"),
        .requires(program: "p11-kit"), .timeLimit(.minutes(15)))
    func `a forged box does not open, and other boxes still do`() async throws {
        try await SoftwareTPMToken.withToken { token in
            let options = TokenOptions(
                isolation: .always, environment: token.environment, deadlines: .hangLimit)
            let keystore = try PKCS11Keystore(
                uri: token.uri, options: PKCS11Options(token: options))
            let owner = ScriptedPresence(Array(repeating: .pin(token.userPIN), count: 4))
            let bytes = SecretBytes.random(count: 32)
            let secret = try await keystore.seal(
                bytes, policy: .pin, for: KeystoreBench.prompt, authorizedBy: owner)
            let box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
            #expect(box.header.establishment == .signature)
            let header = SealedBox.Header(
                name: box.header.name, publicKeyHash: box.header.publicKeyHash,
                terms: box.header.terms,
                establishment: .signature, salt: Data(repeating: 7, count: 32))
            for guess in [SecretBytes.random(count: 256), SecretBytes(try header.statement())] {
                let forged = try SealedBox(
                    sealing: .random(count: 32), header: header, sharedSecret: guess)
                let blob = try DigestedStructure.serialized(forged)
                let error = try await KeystoreBench.error {
                    _ = try await keystore.unseal(
                        secret.replacing(blob: blob), for: KeystoreBench.prompt, authorizedBy: owner
                    )
                }
                #expect(error.code == .damaged)
            }
            let opened = try await keystore.unseal(
                secret, for: KeystoreBench.prompt, authorizedBy: owner)
            #expect(opened == bytes)
        }
    }
}
