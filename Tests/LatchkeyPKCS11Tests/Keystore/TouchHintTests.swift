import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

@Suite(.softwareToken, .timeLimit(.minutes(15)))
struct TouchHintTests {
    @Test func `who waits longer than half a second is told to touch the token`() async throws {
        let presence = ScriptedPresence([])
        let hint = try #require(TouchHint(presence, for: KeystoreBench.prompt, on: .ykcs11))
        try await KeystoreBench.perform { (_) throws(CryptokiError) in
            try hint.during { () throws(CryptokiError) in
                // What a token without a finger on it does to its thread; up to the deadline of a slow machine.
                for _ in 0..<200 where presence.notices.isEmpty { usleep(50_000) }
            }
        }
        #expect(presence.notices == [PresenceNotice(.touch, context: KeystoreBench.prompt)])
    }

    @Test func `who does not wait is told nothing`() async throws {
        let presence = ScriptedPresence([])
        let hint = try #require(TouchHint(presence, for: KeystoreBench.prompt, on: .ykcs11))
        try await KeystoreBench.perform { (_) throws(CryptokiError) in
            try hint.during { () throws(CryptokiError) in }
        }
        try await Task.sleep(for: TouchHint.patience * 2)
        #expect(presence.notices.isEmpty)
    }

    @Test func `software waits for no touch`() {
        #expect(TouchHint(ScriptedPresence([]), for: KeystoreBench.prompt, on: .softhsm) == nil)
        #expect(TouchHint(ScriptedPresence([]), for: KeystoreBench.prompt, on: .tpm2) == nil)
    }
}
