import Latchkey
import LatchkeyTesting
import Testing

@Test func `who says no is not asked again`() async throws {
    let person = ScriptedPresence([.decline])
    let context = PromptContext(reason: "log in")
    guard case .declined = try await person.pin(PINRequest(purpose: .current, context: context)) else {
        Issue.record("the person said no")
        return
    }
    #expect(person.requests.count == 1)
}
