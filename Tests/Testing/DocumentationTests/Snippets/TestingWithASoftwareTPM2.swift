import Latchkey
import LatchkeyTesting
import Testing

@Test func `a user who declines gets no second prompt`() async throws {
    let person = ScriptedPresence([.decline])
    let context = PromptContext(reason: "log in")
    guard case .declined = try await person.pin(PINRequest(purpose: .current, context: context))
    else {
        Issue.record("the user declined")
        return
    }
    #expect(person.requests.count == 1)
}
