import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Helpers for tests of the keystore on the test's software token.
enum KeystoreBench {
    static let prompt = PromptContext(reason: "test a token", container: "tests")
    static let digest = MessageDigest(sha256: "a message".utf8)
    static let reusing = AccessPolicy(.pin, reuseSeconds: 60)

    static func keystore(naming key: String = "", _ options: PKCS11Options = PKCS11Options()) throws
        -> PKCS11Keystore
    {
        let uri = try SoftwareToken.current.uri.replacing("?", with: "\(key)?", maxReplacements: 1)
        return try PKCS11Keystore(uri: uri, options: options)
    }

    static func key(
        on keystore: PKCS11Keystore, _ policy: AccessPolicy = .none, label: String? = nil,
        _ presence: ScriptedPresence = ScriptedPresence(pins: "correct")
    ) async throws -> HardwareKey {
        try await keystore.createKey(
            KeyRequest(policy: policy, label: label, prompt: prompt), authorizedBy: presence)
    }

    static func sign(
        with key: HardwareKey, on keystore: PKCS11Keystore,
        _ presence: ScriptedPresence = ScriptedPresence(pins: "correct")
    ) async throws -> ECDSASignature {
        try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    /// Does work on the token without the keystore.
    static func withSession<R: Sendable>(
        _ work: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws -> R {
        try await Token.find(TokenURI(SoftwareToken.current.uri)).withSession(work)
    }

    /// The error of `work`.
    static func error(_ work: () async throws -> Void) async throws -> KeystoreError {
        try #require(await #expect(throws: KeystoreError.self) { try await work() })
    }

    /// Runs OpenSC's pkcs11-tool on the test's token, logged in.
    static func pkcs11Tool(_ arguments: String...) async throws -> SystemProgram.Outcome {
        try await pkcs11Tool(arguments)
    }

    static func pkcs11Tool(_ arguments: [String]) async throws -> SystemProgram.Outcome {
        let token = try SoftwareToken.current
        return try await program(
            "pkcs11-tool",
            [
                "--module", token.modulePath, "--token-label", token.label, "--login", "--pin",
                token.userPIN,
            ] + arguments)
    }

    static func program(_ name: String, _ arguments: [String]) async throws -> SystemProgram.Outcome
    {
        try await SystemProgram(name, environment: SoftwareToken.current.environment).result(
            of: arguments)
    }
}

extension HardwareKey {
    /// The key's `CKA_ID`, two digits for each byte.
    var tokenID: String {
        get throws {
            try DigestedStructure.parsed(blob, as: TokenKeyBlob.self).name.id.hexadecimal
        }
    }
}
