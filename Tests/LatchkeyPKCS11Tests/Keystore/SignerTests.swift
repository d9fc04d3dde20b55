import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

@Suite(.softwareToken, .requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct SignerTests {
    private static let digests = (0..<20).map { MessageDigest(sha256: [UInt8($0)]) }

    @Test func `one PIN serves all signatures of one loan`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, try #require(KeystoreBench.reusing))
        let presence = ScriptedPresence(pins: "correct")
        let signatures = try await keystore.withSigner(
            of: key, for: KeystoreBench.prompt, authorizedBy: presence
        ) { signer in
            try Self.digests.map { try signer.sign($0) }
        }
        #expect(presence.asked.count <= 1)
        for (digest, signature) in zip(Self.digests, signatures) {
            #expect(key.publicKey.isValid(signature, for: digest))
        }
    }

    @Test func `a wrong PIN lends nothing`() async throws {
        let keystore = try KeystoreBench.keystore()
        let reusing = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: keystore, reusing)
        try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.logout() }
        let error = try await KeystoreBench.error {
            try await keystore.withSigner(
                of: key, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence(pins: "incorrect")
            ) { _ in _ = Issue.record("the key was lent") }
        }
        #expect(error.code == .wrongProof)
    }

    @Test func `a key that wants its PIN at each use is refused before anybody is asked`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let presence = ScriptedPresence(pins: "correct")
        let error = try await KeystoreBench.error {
            try await keystore.withSigner(of: key, for: KeystoreBench.prompt, authorizedBy: presence) { _ in }
        }
        #expect(error.code == .unsupported)
        #expect(presence.asked.isEmpty)
    }

    @Test func `what the body throws comes out, and nothing is repeated`() async throws {
        struct Own: Error {}
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore)
        await #expect(throws: Own.self) {
            try await keystore.withSigner(of: key, for: KeystoreBench.prompt, authorizedBy: NobodyPresent()) { _ in
                throw Own()
            }
        }
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }
}
