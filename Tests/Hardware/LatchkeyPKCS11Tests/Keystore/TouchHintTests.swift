import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

@Suite(.softwareToken, .timeLimit(.minutes(15)))
struct TouchHintTests {
    @Test func `after half a second the user is told to touch the token`() async throws {
        let presence = ScriptedPresence([])
        let hint = TouchHint(
            presence, for: KeystoreBench.prompt,
            on: .ykcs11(ModuleInformation.Version(major: 2, minor: 20)))
        try await KeystoreBench.withSession { (_) throws(CryptokiError) in
            try hint.during { () throws(CryptokiError) in
                // A token that waits for a touch blocks its thread.
                let deadline = ContinuousClock.now + hangLimit
                while presence.notices.isEmpty, ContinuousClock.now < deadline { usleep(50_000) }
            }
        }
        #expect(presence.notices == [.touch(KeystoreBench.prompt)])
    }

    @Test func `a faster operation sends no notice`() async throws {
        let presence = ScriptedPresence([])
        let hint = TouchHint(
            presence, for: KeystoreBench.prompt,
            on: .ykcs11(ModuleInformation.Version(major: 2, minor: 20)))
        try await KeystoreBench.withSession { (_) throws(CryptokiError) in
            try hint.during { () throws(CryptokiError) in }
        }
        try await Task.sleep(for: TouchHint.delay * 2)
        #expect(presence.notices.isEmpty)
    }

    @Test func `software tokens never wait for a touch`() {
        #expect(
            !TouchHint(ScriptedPresence([]), for: KeystoreBench.prompt, on: .softhsm)
                .mayWaitForTouch)
        #expect(
            !TouchHint(ScriptedPresence([]), for: KeystoreBench.prompt, on: .tpm2).mayWaitForTouch)
    }
}
