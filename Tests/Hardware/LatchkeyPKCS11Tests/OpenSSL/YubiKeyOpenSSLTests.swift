import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// OpenSSL and certificates on a virtual YubiKey, through Yubico's module.
@Suite(
    .virtualYubiKey,
    .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
    .timeLimit(.minutes(15)))
struct YubiKeyOpenSSLTests {
    private let prompt = PromptContext(reason: "sign with OpenSSL")
    private let module: YubiKeyModule

    init() throws { module = try YubiKeyModule(.ykcs11, options: YubiKeyModule.neverHanging) }

    private func person() -> ScriptedPresence {
        ScriptedPresence(
            pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
    }

    private func key(in slot: PIVSlot, _ policy: AccessPolicy = .pin) async throws -> (
        PKCS11Keystore, HardwareKey
    ) {
        let keystore = try module.keystore(nil, making: slot)
        return (
            keystore,
            try await keystore.createKey(
                KeyRequest(policy: policy, prompt: prompt), authorizedBy: person())
        )
    }

    @Test(arguments: [PIVSlot.authentication, .signature])
    func `a signature by EVP_DigestSign verifies`(slot: PIVSlot) async throws {
        // Slot 9c requires the PIN for each use, 9a does not.
        let (keystore, key) = try await key(
            in: slot, slot == .signature ? .pin : try #require(AccessPolicy(.pin, reuseSeconds: 60))
        )
        let message = Array("what OpenSSL signs".utf8)
        for _ in 1...2 {
            let der = try await keystore.withEVPKey(of: key, for: prompt, authorizedBy: person()) {
                try OpenSSLUser.sign(message, with: $0)
            }
            let signature = try P256.Signing.ECDSASignature(derRepresentation: der)
            #expect(key.publicKey.cryptoKey.isValidSignature(signature, for: Data(message)))
            let digest = MessageDigest(sha256: message)
            let direct = try await keystore.sign(
                digest, with: key, for: prompt, authorizedBy: person())
            #expect(key.publicKey.isValid(direct, for: digest))
        }
    }

    @Test
    func
        `a key whose policy requires a PIN for each use is not lent if the token does not enforce it`()
        async throws
    {
        let (keystore, key) = try await key(in: .authentication)
        await #expect(throws: KeystoreError.unsupported("", recovery: "")) {
            try await keystore.withEVPKey(of: key, for: prompt, authorizedBy: NobodyPresent()) {
                _ in
                Issue.record("the key was lent to OpenSSL")
            }
        }
    }

    @Test func `a certificate is refused before any prompt, with an alternative`() async throws {
        let (keystore, key) = try await key(in: .authentication)
        // ykcs11 created it with the key, so that old programs find the key.
        let made = try #require(try await keystore.certificates(of: key).first)
        do throws(KeystoreError) {
            try await keystore.storeCertificate(
                made, for: key, prompt: prompt, authorizedBy: NobodyPresent())
            Issue.record("it was stored")
        } catch {
            #expect(error.code == .unsupported && error.recovery.contains("ykman"), "\(error)")
        }
    }
}

private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
