import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Uses pkcs11-tool, which supports CKF_PROTECTED_AUTHENTICATION_PATH.
@Suite(
    .requires(program: "pkcs11-tool"), .requires(program: "softhsm2-util"), .timeLimit(.minutes(15))
)
struct `A fingerprint token` {
    @Test func `reports a reader`() async throws {
        let listing = try await pkcs11Tool(FingerprintToken(), "--list-token-slots")
        #expect(listing.contains("PIN pad present"), "\(listing)")
    }

    @Test func `creates and uses a key with the correct finger`() async throws {
        let token = try await FingerprintToken()
        token.show(.match)
        let made = try await pkcs11Tool(
            token, "--login", "--keypairgen", "--key-type", "EC:prime256v1", "--id", "01",
            "--usage-sign")
        #expect(made.contains("Private Key Object"), "\(made)")
        token.show(.match)
        let listing = try await pkcs11Tool(token, "--login", "--list-objects")
        #expect(listing.contains("Private Key Object"), "\(listing)")
    }

    @Test(arguments: [
        (FingerprintToken.Verdict.noMatch, "CKR_PIN_INCORRECT"),
        (.cancelled, "CKR_FUNCTION_CANCELED"),
        (.rejected, "0x200"), (.locked, "CKR_PIN_LOCKED"),
    ])
    func `reports why a login failed`(_ verdict: FingerprintToken.Verdict, _ code: String)
        async throws
    {
        let token = try await FingerprintToken()
        token.show(verdict)
        let refusal = try await pkcs11Tool(token, "--login", "--list-objects")
        #expect(refusal.contains(code), "\(refusal)")
    }

    @Test(arguments: ["exit 9", "kill -KILL $$"])
    func `fails when its sensor fails`(_ command: String) async throws {
        let refusal = try await pkcs11Tool(
            FingerprintToken(verifyingWith: command), "--login", "--list-objects")
        #expect(refusal.contains("CKR_DEVICE_ERROR"), "\(refusal)")
    }

    @Test func `rejects every PIN, even that of the underlying token`() async throws {
        let token = try await FingerprintToken(verifyingWith: "exit 2")
        let behind = try await tool(
            "--module", token.token.modulePath, "--token-label", token.token.label, "--login",
            "--pin",
            token.token.userPIN, "--list-objects")
        #expect(!behind.contains("error"), "\(behind)")
        let refusal = try await pkcs11Tool(
            token, "--login", "--pin", token.token.userPIN, "--list-objects")
        #expect(refusal.contains("CKR_PIN_INCORRECT"), "\(refusal)")
    }

    @Test func `rejects a PIN change`() async throws {
        let token = try await FingerprintToken()
        token.show(.match)
        let change = try await pkcs11Tool(token, "--login", "--change-pin", "--new-pin", "654321")
        #expect(change.contains("CKR_FUNCTION_NOT_SUPPORTED"), "\(change)")
    }

    @Test(.virtualFinger, .requires(program: "fprintd-verify"), .requires(program: "dbus-daemon"))
    func `verifies the finger with fprintd`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(as: "alice's", for: "alice")
        let token = try await FingerprintToken(
            verifyingWith:
                "DBUS_SYSTEM_BUS_ADDRESS=\(reader.busAddress) fprintd-verify alice >/dev/null")
        async let opened = pkcs11Tool(token, "--login", "--list-objects")
        try await reader.present(.tooShort, .finger("alice's"))
        let listing = try await opened
        #expect(!listing.contains("error"), "\(listing)")
        async let refused = pkcs11Tool(token, "--login", "--list-objects")
        try await reader.present(.finger("mallory's"))
        let refusal = try await refused
        #expect(refusal.contains("CKR_PIN_INCORRECT"), "\(refusal)")
    }

    private func pkcs11Tool(_ token: FingerprintToken, _ arguments: String...) async throws
        -> String
    {
        try await tool(
            ["--module", token.modulePath, "--token-label", token.token.label] + arguments)
    }

    private func tool(_ arguments: String...) async throws -> String { try await tool(arguments) }

    private func tool(_ arguments: [String]) async throws -> String {
        try await SystemProgram("timeout").result(of: ["300", "pkcs11-tool"] + arguments).text
    }
}
