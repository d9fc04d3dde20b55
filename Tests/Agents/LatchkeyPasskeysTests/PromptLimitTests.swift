import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPasskeys

/// Pages that prompt in a row: of one site, and of as many names as they want.
@Suite(.softwareTPM) struct PromptLimitTests {
    @Test func `sixty names of one owner get few prompts, which the page ends`() async throws {
        let prompt = ScriptedPrompt { _ in await ScriptedPrompt.hesitate() }
        try await Rig.with(prompt) { rig in
            var statuses: [UInt8] = []
            for number in 0..<60 {
                statuses.append(await rig.cancelled(Rig.registration(site: "s\(number).evil.org")))
            }
            #expect(rig.prompt.questions.count == 8, "after 1 to 6, 16 and 36 seconds")
            #expect(statuses.filter { $0 == 0x2D }.count == 8)
            #expect(statuses.filter { $0 == 0x2F }.count == 52, "browsers ask other devices")
        }
    }

    @Test func `thirty names of one owner get few prompts, which the user refuses`() async throws {
        try await Rig.with(ScriptedPrompt { _ in .no }) { rig in
            var statuses: [UInt8?] = []
            for number in 0..<30 {
                statuses.append(await rig.status(Rig.registration(site: "s\(number).evil.org")))
            }
            #expect(rig.prompt.questions.count == 3, "after 1, 2 and 12 seconds")
            #expect(statuses.prefix(2) == [0x27, 0x27])
            #expect(statuses.filter { $0 == 0x2F }.count == 27)
        }
    }

    @Test func `other requests than creations count too`() async throws {
        try await Rig.with(ScriptedPrompt { _ in .no }) { rig in
            #expect(await rig.status([0x0B]) == 0x27)
            #expect(await rig.status(Rig.registration(site: ".dummy")) == 0x27)
            for request in [
                [0x0B], Rig.registration(site: "make.me.blink"), Rig.assertion(),
                Rig.registration(changes: [8: .bytes([])]), Rig.assertion(changes: [6: .bytes([])]),
            ] {
                #expect(await rig.status(request) == 0x2F)
            }
            #expect(rig.prompt.questions.count == 2)
        }
    }

    @Test func `a user who consents is not limited, and one refusal concerns one site`()
        async throws
    {
        let prompt = ScriptedPrompt { $0.site == "evil.org" ? .no : .use(0) }
        try await Rig.with(prompt) { rig in
            let sites = (0..<6).map { "site\($0).example" }
            for site in sites { _ = try await rig.ask(Rig.registration(site: site)) }
            for site in sites { _ = try await rig.ask(Rig.assertion(site: site)) }
            #expect(await rig.status(Rig.registration(site: "evil.org")) == 0x27)
            #expect(await rig.status(Rig.assertion(site: "evil.org")) == 0x27)
            for site in sites { _ = try await rig.ask(Rig.assertion(site: site)) }
            #expect(rig.prompt.questions.count == 19)
        }
    }

    @Test func `a consent ends the quiet time of all sites`() async throws {
        let prompt = ScriptedPrompt { $0.site?.hasSuffix("evil.org") == true ? .no : .use(0) }
        try await Rig.with(prompt) { rig in
            for site in ["a.evil.org", "b.evil.org"] {
                #expect(await rig.status(Rig.registration(site: site)) == 0x27)
            }
            #expect(await rig.status(Rig.registration()) == 0x2F)
            rig.clock.advance(by: .seconds(10))
            _ = try await rig.ask(Rig.registration())
            #expect(await rig.status(Rig.registration(site: "c.evil.org")) == 0x27)
            _ = try await rig.ask(Rig.assertion())
        }
    }

    @Test func `a site gets six prompts in a row that the page ends`() async throws {
        let prompt = ScriptedPrompt { _ in await ScriptedPrompt.hesitate() }
        try await Rig.with(prompt) { rig in
            for _ in 1...6 {
                #expect(await rig.cancelled(Rig.registration()) == 0x2D)
            }
            #expect(await rig.cancelled(Rig.registration()) == 0x27)
            #expect(rig.prompt.questions.count == 6)
            rig.clock.advance(by: .seconds(10))
            #expect(await rig.cancelled(Rig.registration()) == 0x2D)
        }
    }

    @Test func `held requests count for their site, and not for others`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            for _ in 1...6 {
                #expect(await rig.cancelled(Rig.assertion(site: "evil.org")) == 0x2D)
            }
            #expect(await rig.cancelled(Rig.assertion(site: "evil.org")) == 0x27)
            #expect(await rig.cancelled(Rig.registration(site: "evil.org")) == 0x27)
            #expect(rig.prompt.questions.count == 1)
            _ = try await rig.ask(Rig.assertion())
        }
    }

    /// The next window could take a click that the user meant for the one before it, and a finger
    /// may still be on the reader.
    @Test func `the prompt after another one waits for a second`() async throws {
        let prompt = ScriptedPrompt {
            $0.site == "evil.org" ? await ScriptedPrompt.hesitate() : .use(0)
        }
        try await Rig.with(prompt) { rig in
            #expect(await rig.cancelled(Rig.registration(site: "evil.org")) == 0x2D)
            for (request, count) in [(Rig.registration(), 1), (Rig.assertion(), 2)] {
                let end = rig.clock.clock.now() + .seconds(1)
                let next = Task { await rig.authenticator.respond(to: request) }
                #expect(await poll { rig.clock.sleepers.contains(end) })
                #expect(rig.prompt.questions.count == count)
                rig.clock.advance(by: .seconds(1))
                #expect(await next.value.first == 0)
                #expect(rig.prompt.questions.count == count + 1)
            }
        }
    }
}
