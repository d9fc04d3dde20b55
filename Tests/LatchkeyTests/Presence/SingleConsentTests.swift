import Latchkey
import LatchkeyTesting
import Testing

struct SingleConsentTests {
    private let current = PINRequest(purpose: .current, context: PromptContext(reason: "log in"))
    private let new = PINRequest(purpose: .new, context: PromptContext(reason: "log in"))

    private func isPIN(_ answer: PINAnswer, _ text: String) throws -> Bool {
        guard case .pin(let pin) = answer else { return false }
        return try pin == PIN(text)
    }

    @Test func `a PIN is reused once, and only after it was confirmed`() async throws {
        let person = ScriptedPresence(pins: "1111", "2222", "3333")
        let consent = SingleConsent(person)
        consent.confirm()
        #expect(try isPIN(await consent.pin(current), "1111"))
        #expect(try isPIN(await consent.pin(current), "2222"))
        consent.confirm()
        #expect(try isPIN(await consent.pin(current), "2222"))
        #expect(try isPIN(await consent.pin(current), "3333"))
        #expect(person.requests.count == 3)
    }

    @Test func `a new PIN always prompts, and a declined prompt is not reused`() async throws {
        let person = ScriptedPresence([.pin("1111"), .pin("2222"), .decline, .pin("3333")])
        let consent = SingleConsent(person)
        _ = try await consent.pin(new)
        consent.confirm()
        #expect(try isPIN(await consent.pin(new), "2222"))
        guard case .declined = try await consent.pin(current) else {
            Issue.record("it answered for the person")
            return
        }
        #expect(person.requests.count == 3)
    }

    /// A fingerprint cannot be reused, so the user is told to use the reader each time.
    @Test func `notices are forwarded`() async {
        let person = ScriptedPresence([])
        let consent = SingleConsent(person)
        let notice = PresenceNotice(.useReader, context: PromptContext(reason: "log in"))
        await consent.notice(notice)
        consent.confirm()
        await consent.notice(notice)
        #expect(person.notices == [notice, notice])
    }
}
