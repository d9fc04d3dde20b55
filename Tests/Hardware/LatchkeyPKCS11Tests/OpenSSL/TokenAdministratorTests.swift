import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Administration of a SoftHSM2 token.
@Suite(.softwareToken, .requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct TokenAdministratorTests {
    private func administrator(_ pins: String..., uri: String? = nil) throws -> TokenAdministrator {
        TokenAdministrator(
            try TokenURI(uri ?? SoftwareToken.current.uri),
            presence: ScriptedPresence(pins.map(ScriptedPresence.Step.pin)))
    }

    /// Whether the token accepts a PIN.
    private func takes(_ pin: String, uri: String? = nil) async throws -> Bool {
        let keystore = try PKCS11Keystore(uri: uri ?? SoftwareToken.current.uri)
        do {
            _ = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: PromptContext(reason: "try the PIN")),
                authorizedBy: ScriptedPresence(pins: pin))
            return true
        } catch {
            try #require(error.code == .wrongProof, "\(error)")
            return false
        }
    }

    @Test func `a wrong current PIN changes nothing`() async throws {
        await #expect(
            throws: KeystoreError(operation: "", code: .wrongProof, reason: "", recovery: "")
        ) {
            try await administrator("incorrect", "brand new").changePIN()
        }
        #expect(try await takes("correct"))
    }

    @Test func `a new PIN of an impossible length is refused before anything is sent`() async throws
    {
        await #expect(
            throws: KeystoreError(operation: "", code: .invalidInput, reason: "", recovery: "")
        ) {
            try await administrator("correct", String(repeating: "9", count: 256)).changePIN()
        }
        #expect(try await takes("correct"))
    }

    @Test func `administration ends a kept login, and waits for its turn`() async throws {
        let keystore = try PKCS11Keystore(uri: SoftwareToken.current.uri)
        let prompt = PromptContext(reason: "test")
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 60))
        let digest = MessageDigest(sha256: [])
        let key = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt),
            authorizedBy: ScriptedPresence(pins: "correct"))
        _ = try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        let silent = ScriptedPresence([])
        _ = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: silent)
        let declining = ScriptedPresence([.decline])
        async let loan: Void = keystore.withEVPKey(of: key, for: prompt, authorizedBy: declining) {
            evpKey in
            for _ in 1...200 { _ = try OpenSSLUser.sign([1], with: evpKey) }
        }
        try await administrator("correct", "brand new").changePIN()
        // Either the loan ended first, or its login had ended.
        do { try await loan } catch let error as KeystoreError {
            #expect(error.code == .cancelled, "\(error)")
        }
        await #expect(throws: KeystoreError.self) {
            _ = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: silent)
        }
        let again = ScriptedPresence(pins: "brand new")
        _ = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: again)
        #expect(again.asked.count == 1)
    }

    @Test func `a declined prompt changes nothing`() async throws {
        let administrator = TokenAdministrator(
            try TokenURI(SoftwareToken.current.uri), presence: ScriptedPresence([.decline]))
        await #expect(throws: KeystoreError.cancelled("")) { try await administrator.changePIN() }
        #expect(try await takes("correct"))
    }

    @Test func `nothing is erased after a cancellation during the prompts`() async throws {
        let administrator = TokenAdministrator(
            try TokenURI(SoftwareToken.current.uri),
            presence: LatePresence(pins: ["12345678", "user 1"]))
        let task = Task { () async throws -> Void in
            _ = try await administrator.initialize(label: "erased", erasing: true)
        }
        await #expect(throws: KeystoreError.cancelled("")) { try await task.value }
        #expect(try await takes("correct"))
    }

    @Test func `a token is initialized, with its label padded and both PINs set`() async throws {
        let module = try SoftwareToken.current.modulePath
        let label = "Ünique \(UInt16.random(in: 0 ... .max))"
        let made = try await administrator(
            "officer 1", "user 1",
            uri: "pkcs11:manufacturer=SoftHSM%20project?module-path=\(module)"
        ).initialize(label: label)
        #expect(made.label == label)
        #expect(made.flags.isSuperset(of: [.initialized, .userPINInitialized]))
        let uri = "pkcs11:serial=\(made.serial)?module-path=\(module)"
        #expect(try await takes("user 1", uri: uri))
        try await administrator("officer 1", "user 2", uri: uri).initializePIN()
        #expect(try await takes("user 2", uri: uri))
    }

    @Test func `a token in use is erased only on request`() async throws {
        let keystore = try PKCS11Keystore(uri: SoftwareToken.current.uri)
        let prompt = PromptContext(reason: "test")
        let key = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
        await #expect(throws: KeystoreError.conflict("")) {
            _ = try await administrator().initialize(label: "other")
        }
        let made = try await administrator("12345678", "user 1").initialize(
            label: "erased", erasing: true)
        #expect(made.label == "erased")
        await #expect(throws: KeystoreError.self) {
            _ = try await keystore.sign(
                MessageDigest(sha256: []), with: key, for: prompt, authorizedBy: NobodyPresent())
        }
    }

    @Test(arguments: ["", "123456789012345678901234567890123", "a\u{7}"])
    func `an invalid label is refused`(label: String) async throws {
        await #expect(throws: KeystoreError.invalidInput("")) {
            _ = try await administrator().initialize(label: label)
        }
    }

    @Test func `an absent token is unavailable`() async throws {
        let module = try SoftwareToken.current.modulePath
        await #expect(
            throws: KeystoreError(operation: "", code: .unavailable, reason: "", recovery: "")
        ) {
            try await administrator(uri: "pkcs11:token=nowhere?module-path=\(module)").changePIN()
        }
    }
}

/// A user who answers after the task was cancelled.
private struct LatePresence: PresenceAuthority {
    private let pins: ScriptedPresence

    init(pins: [String]) { self.pins = ScriptedPresence(pins.map(ScriptedPresence.Step.pin)) }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let answer = try await pins.pin(request)
        if pins.requests.count == 2 { withUnsafeCurrentTask { $0?.cancel() } }
        return answer
    }
}
