import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A store that is put back does not bring the old right back, whatever the server still takes.
@Suite(.softwareTPM)
struct RollbackTests {
    enum Change: CaseIterable {
        case pinChange, disable, forcedDisable, replacement
    }

    @Test(arguments: Change.allCases)
    func `a copy of the store from before a PIN change does not log in with the old PIN`(
        _ change: Change
    ) async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let enabled = try await container.enableBiometric()
            #expect(enabled.key.isRevocable)
            let copied = Bench(
                directory: try bench.directory.copyOfStore(), tpm: bench.tpm,
                identity: bench.identity,
                browser: bench.browser)
            _ = try await keystore(copied).sign(
                MessageDigest(sha256: Array("the control".utf8)), with: enabled.key, for: prompt,
                authorizedBy: ScriptedPresence(pins: Bench.pin))
            switch change {
            case .pinChange:
                let store = try await RecordStore(directory: bench.directory.path)
                try await RecordContainer(
                    store: store, keystore: TPMKeystore(tcti: bench.tpm.tcti, anchors: store)
                )
                .changePIN(for: prompt, authorizedBy: ScriptedPresence(pins: Bench.pin, "97531"))
            case .disable: try await container.disableBiometric()
            case .forcedDisable: try await container.disableBiometric(force: true)
            case .replacement: try await container.enableBiometric(replacing: true)
            }
            let thief = try await copied.start(presence: ScriptedPresence(pins: Bench.pin))
            let error = await #expect(throws: KeystoreError.self) {
                try await thief.authenticateBiometric()
            }
            #expect(error?.code == (change == .pinChange ? .wrongProof : .invalidated))
            #expect(error?.underlying?.rawCode == (change == .pinChange ? 0x98e : 0x18b))
            if change == .pinChange {
                let owner = try await bench.start(presence: ScriptedPresence(pins: "97531"))
                #expect(try await owner.authenticateBiometric().userInfo.userID == "user-a")
            }
        }
    }

    @Test func `the error of a lost key names the call that replaces it, and the call does`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            try await container.enableBiometric()
            let copied = Bench(
                directory: try bench.directory.copyOfStore(), tpm: bench.tpm,
                identity: bench.identity, browser: bench.browser)
            try await container.disableBiometric(force: true)
            let app = try await copied.start()
            let error = await #expect(throws: KeystoreError.self) {
                try await app.authenticateBiometric()
            }
            #expect(error?.code == .invalidated)
            #expect(
                error?.recovery.hasSuffix(
                    " Log in another way; then Container.enableBiometric(replacing: true) replaces "
                        + "the login's key.") == true)
            try await app.authorize()
            // Neither the hardware nor the user is asked.
            #expect(try await app.isBiometricEnabled())
            #expect(try await app.enableBiometric().wasAlreadyEnabled)
            let again = await #expect(throws: KeystoreError.self) {
                try await app.authenticateBiometric()
            }
            #expect(again?.code == .invalidated)
            try await app.enableBiometric(replacing: true)
            #expect(try await app.authenticateBiometric().userInfo.userID == "user-a")
        }
    }

    /// The program ends after the login is disabled here, before the hardware revokes the key.
    @Test func `the next call that enables revokes the keys that a crash left`() async throws {
        try await Bench.with { bench in
            let container = try await bench.start()
            try await container.authorize()
            let enabled = try await container.enableBiometric()
            let store = try await RecordStore(directory: bench.directory.path)
            try await RecordContainer(store: store, keystore: keystore(bench)).apply(
                [.delete("login.key", ifGeneration: nil)], for: prompt)
            func sign() async throws {
                _ = try await keystore(bench).sign(
                    MessageDigest(sha256: Array("a login".utf8)), with: enabled.key, for: prompt,
                    authorizedBy: ScriptedPresence(pins: Bench.pin))
            }
            try await sign()
            try await bench.start().enableBiometric()
            let error = await #expect(throws: KeystoreError.self) { try await sign() }
            #expect(error?.code == .invalidated)
        }
    }

    private let prompt = PromptContext(reason: "roll back")

    private func keystore(_ bench: Bench) async throws -> TPMKeystore {
        TPMKeystore(
            tcti: bench.tpm.tcti, anchors: try await RecordStore(directory: bench.directory.path))
    }
}
