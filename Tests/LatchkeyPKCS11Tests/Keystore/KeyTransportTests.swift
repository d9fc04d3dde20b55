import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Sealing by RSA-OAEP, for tokens without key agreement.
struct KeyTransportTests {
    private static let modulus = [0xc1] + [UInt8](repeating: 0x5a, count: 254) + [0x01]

    @Test func `takes an RSA key with 2048 bits and the usual exponent, zeros before them or not`() throws {
        let key = try RSAPublicKey(modulus: Self.modulus, exponent: [1, 0, 1])
        #expect(try RSAPublicKey(modulus: [0] + Self.modulus, exponent: [0, 1, 0, 1]) == key)
    }

    @Test(
        arguments: [
            (modulus: [], exponent: [1, 0, 1]), (modulus + [1], [1, 0, 1]), (Array(modulus.dropFirst()), [1, 0, 1]),
            (modulus.dropLast() + [0], [1, 0, 1]), ([0x7f] + modulus.dropFirst(), [1, 0, 1]), (modulus, [3]),
            (modulus, []),
            (modulus, [1, 0, 1, 0]),
        ] as [(modulus: [UInt8], exponent: [UInt8])])
    func `takes no other RSA key`(_ modulus: [UInt8], _ exponent: [UInt8]) {
        #expect(throws: CryptokiError(.malformed, reason: "")) {
            try RSAPublicKey(modulus: modulus, exponent: exponent)
        }
    }

    @Test(arguments: [(0, 256), (1, 64), (1, 65), (1, 256), (2, 0), (2, 65), (2, 255), (2, 257), (3, 256), (-1, 65)])
    func `a box with a message of another version or length is none`(_ version: Int, _ count: Int) {
        #expect(throws: (any Error).self) {
            try SealedBox.Message(version: version, bytes: Data(repeating: 4, count: count))
        }
    }

    @Test(
        .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"), .requires(program: "pkcs11-tool"),
        .requires(program: "p11-kit"), .timeLimit(.minutes(10)))
    func `a forged ciphertext opens nothing, and stands in nobody's way`() async throws {
        try await SoftwareTPMToken.withToken { token in
            let options = TokenOptions(isolation: .always, environment: token.environment)
            let keystore = try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
            let owner = ScriptedPresence(Array(repeating: .pin(token.userPIN), count: 3))
            let bytes = SecretBytes.random(count: 32)
            let secret = try await keystore.seal(bytes, policy: .pin, for: KeystoreBench.prompt, authorizedBy: owner)
            let box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
            guard case .transport(var ciphertext) = box.header.message else {
                Issue.record("it was not sealed by key transport")
                return
            }
            ciphertext[ciphertext.endIndex - 1] ^= 1
            let header = SealedBox.Header(
                name: box.header.name, publicKeyHash: box.header.publicKeyHash, terms: box.header.terms,
                message: .transport(ciphertext))
            let forged = try SealedBox(sealing: bytes, header: header, sharedSecret: .random(count: 32))
            let blob = try DigestedStructure.serialized(forged)
            let error = try await KeystoreBench.error {
                _ = try await keystore.unseal(
                    secret.replacing(blob: blob), for: KeystoreBench.prompt, authorizedBy: owner)
            }
            #expect(error.code == .failed)
            let opened = try await keystore.unseal(secret, for: KeystoreBench.prompt, authorizedBy: owner)
            #expect(opened == bytes)
        }
    }
}
