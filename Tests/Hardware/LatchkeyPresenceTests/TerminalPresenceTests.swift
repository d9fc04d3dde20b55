import Glibc
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import LatchkeyPresence

@Suite(.timeLimit(.minutes(15)))
struct TerminalPresenceTests {
    let terminal = try? PseudoTerminal()

    @Test func `a typed PIN is accepted and never shown`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request(attemptsLeft: 3))
        let screen = try await terminal.wait(for: "PIN: ")
        #expect(
            screen.contains(
                "asks for your PIN to open the test (container ‘work’). 3 attempts are left."))
        #expect(!terminal.isAsUsual)
        terminal.type("2580\r")
        #expect(try await answer.text == "2580")
        #expect(!terminal.rest().contains("2580"))
        #expect(terminal.isAsUsual)
    }

    @Test func `without a terminal, the two ways out are alternatives`() async throws {
        let error = await #expect(throws: KeystoreError.self) {
            try await TerminalPresence(path: "/nonexistent/tty").pin(request())
        }
        #expect(error?.code == .unavailable)
        #expect(
            error?.recovery == "Run the program at a terminal. Or use another source of PINs.")
    }

    @Test func `the prompt names the security officer's PIN, and appears once`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request(.securityOfficer))
        let screen = try await terminal.wait(for: "Officer PIN: ")
        #expect(screen.contains("the token's security officer PIN to open the test"))
        terminal.type("12345678\n")
        #expect(try await answer.text == "12345678")
    }

    @Test(arguments: [
        (
            PINRequest.OfficerSecret.managementKey(orPIN: false),
            "asks for the card's management key (48",
            "Management key: "
        ),
        (
            .managementKey(orPIN: true), "or the PIN if it protects the key) to open",
            "Management key: "
        ),
        (
            .protectingPIN, "asks for the card's PIN, which protects its management key, to open",
            "PIN: "
        ),
    ])
    func `the prompt names the secret that the card requires`(
        _ secret: PINRequest.OfficerSecret, _ words: String, _ label: String
    ) throws {
        var request = request(.securityOfficer)
        request.officerSecret = secret
        let wording = PromptWording(request)
        #expect(wording.description.contains(words))
        #expect(wording.label + " " == label)
    }

    @Test func `a line says what to do at the token`() async throws {
        let terminal = try #require(terminal)
        let context = PromptContext(reason: "log in\u{1B}[2J", container: "work")
        await TerminalPresence(path: terminal.path).notice(.touch(context))
        let screen = try await terminal.wait(for: "\r\n")
        #expect(screen == "The token waits for a touch: touch it to log in\u{FFFD}[2J.\r\n")
    }

    @Test func `a new PIN is typed twice`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request(.new))
        try await terminal.wait(for: "New PIN: ")
        terminal.type("geheim\n")
        try await terminal.wait(for: "again: ")
        terminal.type("geheim\n")
        #expect(try await answer.text == "geheim")
    }

    @Test func `a new PIN below the stated length is prompted for again, without a second line`()
        async throws
    {
        let terminal = try #require(terminal)
        var wanted = request(.new)
        wanted.minimumCharacters = 6
        let given = wanted
        async let answer = TerminalPresence(path: terminal.path, application: "Notes").pin(given)
        let screen = try await terminal.wait(for: "New PIN: ")
        #expect(screen.contains("Notes asks for a new PIN"))
        #expect(screen.contains("Use at least 6 characters."))
        for short in ["12345", "ÄÖÜäö"] {
            terminal.type("\(short)\n")
            try await terminal.wait(for: "fewer than 6 characters.\r\nNew PIN: ")
        }
        terminal.type("geheim\n")
        try await terminal.wait(for: "again: ")
        terminal.type("geheim\n")
        #expect(try await answer.text == "geheim")
    }

    @Test func `two PINs that differ lead to another prompt`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request(.new))
        try await terminal.wait(for: "New PIN: ")
        terminal.type("1111\n")
        try await terminal.wait(for: "again: ")
        terminal.type("1112\n")
        try await terminal.wait(for: "The two PINs differ.\r\nNew PIN: ")
        terminal.type("1111\n")
        try await terminal.wait(for: "again: ")
        terminal.type("1111\n")
        #expect(try await answer.text == "1111")
    }

    @Test func `three lines that are too short end in invalidInput`() async throws {
        let terminal = try #require(terminal)
        let path = terminal.path
        let answer = Task { try await TerminalPresence(path: path).pin(request()) }
        for _ in 0..<3 {
            try await terminal.wait(for: "PIN: ")
            terminal.type("123\n")
        }
        let error = await #expect(throws: KeystoreError.self) { try await answer.value }
        #expect(error?.code == .invalidInput)
        #expect(terminal.isAsUsual)
    }

    @Test(arguments: ["\u{4}", "\u{1C}"])
    func `Ctrl-D and Ctrl-backslash decline`(keys: String) async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request())
        try await terminal.wait(for: "PIN: ")
        terminal.type(keys)
        #expect(try await answer.refusal == "you declined")
        #expect(terminal.isAsUsual)
    }

    @Test func `characters and the line can be deleted`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request())
        try await terminal.wait(for: "PIN: ")
        terminal.type("wrong\u{15}пинк\u{7F}код\n")
        #expect(try await answer.text == "пинкод")
    }

    @Test func `a prompt without an answer declines at the deadline`() async throws {
        let terminal = try #require(terminal)
        let answer = try await TerminalPresence(path: terminal.path, timeout: .milliseconds(200))
            .pin(request())
        #expect(answer.refusal?.hasPrefix("there was no answer within") == true)
        #expect(terminal.isAsUsual)
    }

    @Test func `cancelling the task restores the terminal`() async throws {
        let terminal = try #require(terminal)
        let path = terminal.path
        let task = Task { try await TerminalPresence(path: path).pin(request()) }
        try await terminal.wait(for: "PIN: ")
        task.cancel()
        #expect(try await task.value.refusal == "the prompt was cancelled")
        #expect(terminal.isAsUsual)
    }

    @Test func `a line longer than any PIN is refused`() async throws {
        let terminal = try #require(terminal)
        async let answer = TerminalPresence(path: terminal.path).pin(request())
        try await terminal.wait(for: "PIN: ")
        terminal.type(String(repeating: "1", count: 700) + "\n")
        try await terminal.wait(for: "more than 256 bytes.\r\nPIN: ")
        terminal.type("2580\n")
        #expect(try await answer.text == "2580")
    }

    @Test func `without a terminal there is no prompt`() async throws {
        let error = await #expect(throws: KeystoreError.self) {
            try await TerminalPresence(path: "/dev/null").pin(request())
        }
        #expect(error?.code == .unavailable)
        #expect(!TerminalPresence.isPresent(path: "/dev/null"))
    }
}
