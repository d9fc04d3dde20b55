import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Checks that the token and the key are the stored ones.
@Suite(.softwareToken)
struct TokenIdentityTests {
    @Test func `a key of another token with the same label is refused, and both are named`()
        async throws
    {
        let here = try SoftwareToken.current
        let other = try await SoftwareToken(label: here.label, userPIN: here.userPIN)
        let keystore = try PKCS11Keystore(
            uri: "pkcs11:token=\(here.label)?module-path=\(here.modulePath)")
        let swapped = try PKCS11Keystore(
            uri: "pkcs11:token=\(here.label)?module-path=\(other.modulePath)")
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let presence = ScriptedPresence(pins: "correct")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: key, on: swapped, presence)
        }
        #expect(error.code == .wrongDevice)
        #expect(error.reason.contains(here.serial))
        #expect(error.reason.contains(other.serial))
        #expect(presence.requests.isEmpty)
    }

    @Test func `a serial number in the URI identifies the token without its module`() async throws {
        let keystore = try KeystoreBench.keystore()
        let secret = try await keystore.seal(
            SecretBytes([UInt8](repeating: 7, count: 32)), policy: .none, for: KeystoreBench.prompt,
            authorizedBy: NobodyPresent())
        for (serial, isOwn) in [(try SoftwareToken.current.serial, true), ("0123456789", false)] {
            let absent = try PKCS11Keystore(
                uri: "pkcs11:serial=\(serial)?module-path=/nonexistent.so")
            #expect(await absent.owns(secret) == isOwn)
        }
        let absent = try PKCS11Keystore(uri: "pkcs11:token=any?module-path=/nonexistent.so")
        #expect(await absent.owns(secret) == nil)
    }

    @Test func `a key that another program deleted is not found`() async throws {
        let keystore = try KeystoreBench.keystore()
        let pin = try PIN("correct")
        for policy in [AccessPolicy.none, .pin] {
            let key = try await KeystoreBench.key(on: keystore, policy)
            let id = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self).name.id
            try await KeystoreBench.withSession { (session) throws(CryptokiError) in
                try session.login(.user, with: .pin(pin))
                try session.destroyKey(id: id)
                try session.logout()
            }
            let presence = ScriptedPresence(pins: "correct")
            let error = try await KeystoreBench.error {
                _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
            }
            #expect(error.code == .notFound)
            // The token may show the key only after the login.
            #expect(presence.requests.count == (policy == .pin ? 1 : 0))
        }
    }

    @Test func `a key that another program replaced is detected, without a prompt`() async throws {
        let keystore = try KeystoreBench.keystore()
        let pin = try PIN("correct")
        for policy in [AccessPolicy.none, .pin] {
            let key = try await KeystoreBench.key(on: keystore, policy)
            let id = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self).name.id
            let isPrivate = policy.requirement != .none
            try await KeystoreBench.withSession { (session) throws(CryptokiError) in
                try session.login(.user, with: .pin(pin))
                try session.destroyKey(id: id)
                _ = try session.generateKeyPair(
                    KeyPairRequest(
                        id: id, label: "stranger", use: .sign, isPrivate: isPrivate,
                        alwaysAuthenticates: false))
                try session.logout()
            }
            let presence = ScriptedPresence(pins: "correct")
            let error = try await KeystoreBench.error {
                _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
            }
            #expect(error.code == .invalidated)
            #expect(presence.requests.isEmpty)
        }
    }

    @Test func `deletion with the PIN leaves nothing on the token`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let presence = ScriptedPresence(pins: "correct")
        try await keystore.delete(key, for: KeystoreBench.prompt, authorizedBy: presence)
        #expect(presence.requests.count == 1)
        let left = try await KeystoreBench.pkcs11Tool("--list-objects")
        #expect(left.isSuccess && !left.text.contains("Key Object"), "\(left.text)")
    }

    @Test func `the keys on the token are listed, and each can be adopted by its URI`() async throws
    {
        let keystore = try KeystoreBench.keystore()
        let guarded = try await KeystoreBench.key(on: keystore, .pin, label: "guarded")
        let open = try await KeystoreBench.key(on: keystore, .none, label: "open")
        let all = try await keystore.keys()
        #expect(Set(all.map(\.publicKey)) == [guarded.publicKey, open.publicKey])
        let listed = try #require(all.first { $0.label == "guarded" })
        let uri = try #require(listed.uri)
        let adopted = try await KeystoreBench.key(on: PKCS11Keystore(uri: uri), .pin)
        #expect(adopted.publicKey == guarded.publicKey)
        #expect(try uri.hasPrefix(PKCS11Keystore.location(of: guarded) + "?"))
    }

    @Test func `a software token is reported as a simulator`() async throws {
        let capabilities = try await KeystoreBench.keystore().capabilities()
        #expect(capabilities.root == .softhsm)
        #expect(capabilities.device.contains(try SoftwareToken.current.serial))
        #expect(!capabilities.canAttest)
    }

    @Test func `the private value can't be read after a login`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let id = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self).name.id
        let pin = try PIN("correct")
        let value = try await KeystoreBench.withSession { (session) throws(CryptokiError) in
            try session.login(.user, with: .pin(pin))
            // CKA_VALUE (PKCS#11 2.40 section 4.9)
            let value = try session.attribute(0x11, of: session.key(id: id).handle, most: 256)
            try session.logout()
            return value
        }
        #expect(value == nil)
    }
}
