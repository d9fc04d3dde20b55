import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyPasskeys

/// The messages about a failure, and the second try within a request.
@Suite(.softwareTPM) struct SecondTryTests {
    @Test func `a wrong PIN is requested once more, with the attempts left`() async throws {
        try await withUser { rig, user in
            user.enters("000000", "123456")
            _ = try await rig.ask(Rig.assertion())
            let prompts = rig.prompt.pins.suffix(2)
            #expect(prompts.count == 2)
            let first = try #require(prompts.first?.attemptsLeft)
            #expect(prompts.last?.attemptsLeft == first - 1)
            #expect(rig.prompt.failures.isEmpty)
        }
    }

    @Test func `after the second wrong PIN the request ends, and the user is told`() async throws {
        try await withUser { rig, user in
            user.enters("000000", "000001", "123456")
            #expect(await rig.status(Rig.assertion()) == 0x3F)
            #expect(rig.prompt.failures.map(\.code) == [.wrongProof])
        }
    }

    @Test func `a lockout states its end to the user`() async throws {
        try await withUser { rig, user in
            var status: UInt8? = 0x3F
            for _ in 0..<20 where status == 0x3F {
                user.enters("000000", "000001")
                status = await rig.status(Rig.assertion())
            }
            #expect(status == 0x3C)
            let last = try #require(rig.prompt.failures.last)
            #expect(last.code == .lockedOut && last.lockedOutUntil != nil)
        }
    }

    @Test func `a refusal is no failure`() async throws {
        try await withUser { rig, user in
            user.declines()
            #expect(await rig.status(Rig.assertion()) == 0x27)
            #expect(rig.prompt.failures.isEmpty)
        }
    }

    @Test func `without a prompt the device cannot verify users`() async throws {
        try await withUser { rig, _ in
            let before = try await rig.ask([4])
            #expect(before[0x04]?.map?["uv"] == .boolean(true))
            rig.prompt.disable()
            let after = try await rig.ask([4])
            #expect(after[0x04]?.map?["uv"] == .boolean(false))
        }
    }

    /// Runs the body with a passkey that has the PIN 123456.
    private func withUser(_ body: (Rig, User) async throws -> Void) async throws {
        let user = User()
        let prompt = ScriptedPrompt(authority: { user.presence })
        try await Rig.with(prompt) { rig in
            _ = try await rig.ask(Rig.registration())
            try await body(rig, user)
        }
    }

    /// The answers of the user to the prompts of the next request.
    private final class User: Sendable {
        private let answers = Mutex<[ScriptedPresence.Step]>(
            Array(repeating: .pin("123456"), count: 4))

        var presence: ScriptedPresence { ScriptedPresence(answers.withLock(\.self)) }

        func enters(_ pins: String...) { answers.withLock { $0 = pins.map { .pin($0) } } }
        func declines() { answers.withLock { $0 = [.decline] } }
    }
}
