import Crypto
import Dispatch
import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Keys on a SoftHSM2 token in OpenSSL, through libp11.
@Suite(.softwareToken, .requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct EVPKeyTests {
    private let prompt = PromptContext(reason: "sign with OpenSSL")
    private let message = Array("what OpenSSL signs".utf8)

    private func keystore() throws -> PKCS11Keystore {
        try PKCS11Keystore(uri: SoftwareToken.current.uri)
    }

    private func key(_ policy: AccessPolicy, _ keystore: PKCS11Keystore) async throws -> HardwareKey
    {
        try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt),
            authorizedBy: ScriptedPresence(pins: "correct"))
    }

    private func isValid(_ der: Data, _ key: HardwareKey) throws -> Bool {
        try key.publicKey.cryptoKey.isValidSignature(
            P256.Signing.ECDSASignature(derRepresentation: der), for: Data(message))
    }

    @Test(arguments: [AccessPolicy.none, .pin]) func `a signature by EVP_DigestSign verifies`(
        policy: AccessPolicy
    )
        async throws
    {
        let keystore = try keystore()
        let key = try await key(policy, keystore)
        let message = message
        for _ in 1...3 {
            let presence = ScriptedPresence(pins: "correct")
            let signature = try await keystore.withEVPKey(
                of: key, for: prompt, authorizedBy: presence
            ) { evpKey in
                try OpenSSLUser.sign(message, with: evpKey)
            }
            #expect(try isValid(signature, key))
        }
        // The keystore's session still works.
        let digest = MessageDigest(sha256: message)
        let direct = try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        #expect(key.publicKey.isValid(direct, for: digest))
    }

    @Test func `a key that requires its PIN for each use signs once for one PIN`() async throws {
        let keystore = try keystore()
        let key = try await key(.pin, keystore)
        let message = message
        let signatures = try await keystore.withEVPKey(
            of: key, for: prompt, authorizedBy: ScriptedPresence(pins: "correct")
        ) { evpKey in
            (
                try OpenSSLUser.sign(message, with: evpKey),
                try? OpenSSLUser.sign(message, with: evpKey)
            )
        }
        #expect(try isValid(signatures.0, key))
        #expect(signatures.1 == nil)
    }

    @Test func `a kept login makes many signatures`() async throws {
        let keystore = try keystore()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 60))
        let key = try await key(policy, keystore)
        let message = message
        let signatures = try await keystore.withEVPKey(
            of: key, for: prompt, authorizedBy: ScriptedPresence(pins: "correct")
        ) { evpKey in
            try (1...20).map { _ in try OpenSSLUser.sign(message, with: evpKey) }
        }
        for signature in signatures { #expect(try isValid(signature, key)) }
        #expect(Set(signatures).count == 20)
    }

    @Test func `the right one of many keys is found`() async throws {
        let keystore = try keystore()
        var keys: [HardwareKey] = []
        for _ in 1...4 { keys.append(try await key(.none, keystore)) }
        let message = message
        for key in keys.shuffled() {
            let signature = try await keystore.withEVPKey(
                of: key, for: prompt, authorizedBy: NobodyPresent()
            ) {
                try OpenSSLUser.sign(message, with: $0)
            }
            #expect(try isValid(signature, key))
        }
    }

    @Test func `a wrong PIN fails before OpenSSL gets the key`() async throws {
        let keystore = try keystore()
        let key = try await key(.pin, keystore)
        await #expect(
            throws: KeystoreError(operation: "", code: .wrongProof, reason: "", recovery: "")
        ) {
            try await keystore.withEVPKey(
                of: key, for: prompt, authorizedBy: ScriptedPresence(pins: "incorrect")
            ) {
                _ in
                Issue.record("the key was lent")
            }
        }
    }

    @Test func `an error of the body is rethrown, and the key can be lent again`() async throws {
        struct Own: Error {}
        let keystore = try keystore()
        let key = try await key(.none, keystore)
        await #expect(throws: Own.self) {
            try await keystore.withEVPKey(of: key, for: prompt, authorizedBy: NobodyPresent()) {
                _ in throw Own()
            }
        }
        let message = message
        let signature = try await keystore.withEVPKey(
            of: key, for: prompt, authorizedBy: NobodyPresent()
        ) {
            try OpenSSLUser.sign(message, with: $0)
        }
        #expect(try isValid(signature, key))
    }

    @Test func `an isolated module refuses the loan before any prompt, with an alternative`()
        async throws
    {
        let keystore = try PKCS11Keystore(
            uri: SoftwareToken.current.uri,
            options: PKCS11Options(token: TokenOptions(isolation: .always)))
        let key = try await key(.pin, keystore)
        do {
            _ = try await keystore.withEVPKey(of: key, for: prompt, authorizedBy: NobodyPresent()) {
                _ in
                Issue.record("the key was lent")
            }
            Issue.record("it was not refused")
        } catch let error as KeystoreError {
            #expect(error.code == .unsupported)
            #expect(error.recoveryAction.actions == [.useModuleHere])
        }
    }

    @Test(arguments: [Duration.seconds(Int64.max), .seconds(60)])
    func `a very long limit is accepted`(limit: Duration) async throws {
        let keystore = try keystore()
        let key = try await key(.none, keystore)
        let one = try await keystore.withEVPKey(
            of: key, for: prompt, authorizedBy: NobodyPresent(), within: limit
        ) {
            _ in 1
        }
        #expect(one == 1)
    }

    @Test func `a body that does not return ends the call at the limit`() async throws {
        let keystore = try keystore()
        let key = try await key(.none, keystore)
        let gate = DispatchSemaphore(value: 0)
        defer { gate.signal() }
        do {
            try await keystore.withEVPKey(
                of: key, for: prompt, authorizedBy: NobodyPresent(), within: .milliseconds(200)
            ) { _ in gate.wait() }
            Issue.record("it came back")
        } catch let error as KeystoreError {
            #expect(error.code == .transient)
        }
    }
}
