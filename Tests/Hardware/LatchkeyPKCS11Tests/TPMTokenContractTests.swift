import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The contract over tpm2-pkcs11. Each test's module runs in a separate process, which has that
/// test's TPM.
@Suite(
    .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
    .requires(program: "pkcs11-tool"),
    .requires(program: "p11-kit"), .timeLimit(.minutes(15)))
struct `A keystore on a token in a TPM` {
    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `keeps the contract`(_ requirement: KeystoreContract.Requirement) async throws {
        try await SoftwareTPMToken.withToken { token in
            try await KeystoreContract(
                device: KeystoreContract.Device(
                    pin: .ofDevice(token.userPIN), guessing: .locksSilently(after: 32),
                    pinBytes: PIN.minimumCharacters...128, canDelete: false, hasOpenKeys: false),
                open: { try Self.keystore(on: token) },
                openOther: { body in
                    try await SoftwareTPMToken.withToken { try await body(Self.keystore(on: $0)) }
                }
            ).check(requirement)
        }
    }

    @Test(.requires(program: "tpm2_clear"))
    func `names the cause after the TPM was cleared`() async throws {
        try await SoftwareTPMToken.withToken { token in
            let keystore = try Self.keystore(on: token)
            let prompt = PromptContext(reason: "use a key", container: "tests")
            let key = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: prompt),
                authorizedBy: ScriptedPresence(pins: token.userPIN))
            let cleared = try await SystemProgram("tpm2_clear", environment: token.environment)
                .result(of: ["--tcti", ResourceManager.tcti, "-c", "platform"])
            try #require(cleared.isSuccess, "\(cleared.text)")
            let error = await #expect(throws: KeystoreError.self) {
                try await keystore.sign(
                    MessageDigest(sha256: "a message".utf8), with: key, for: prompt,
                    authorizedBy: ScriptedPresence(pins: token.userPIN))
            }
            #expect(error?.recovery.contains("cleared") == true, "\(String(describing: error))")
        }
    }

    private static func keystore(on token: SoftwareTPMToken) throws -> PKCS11Keystore {
        let options = TokenOptions(
            isolation: .always, environment: token.environment, deadlines: .hangLimit)
        return try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
    }
}
