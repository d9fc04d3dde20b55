import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(.timeLimit(.minutes(15)))
struct PinentryPresenceTests {
    static let environment = ["PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8"]

    private func presence(_ fake: FakePinentry, timeout: Duration = hangLimit) -> PinentryPresence {
        PinentryPresence(program: fake.path, environment: Self.environment, timeout: timeout)
    }

    @Test func `a PIN is percent-decoded, and the program gets the prompt's text`() async throws {
        let fake = try FakePinentry(answering: "echo 'D 12%25%0d%e2%82%ac4'; echo OK")
        let error = await #expect(throws: KeystoreError.self) {
            try await presence(fake).pin(request())
        }
        #expect(error?.code == .invalidInput)
        let good = try FakePinentry(answering: "echo 'D 12%25'; echo 'D %e2%82%ac4'; echo OK")
        #expect(try await presence(good).pin(request(attemptsLeft: 1)).text == "12%€4")
        let commands = try good.commands
        #expect(commands.contains("SETPROMPT PIN:"))
        #expect(commands.contains("OPTION ttytype=xterm"))
        #expect(commands.contains("SETTIMEOUT 300"))
        #expect(
            commands.contains {
                $0.hasPrefix("SETDESC Latchkey asks for your PIN to open the test")
            })
        #expect(commands.contains { $0.contains("One attempt is left") })
        // The program has half a second to read BYE, too little for some runs on a busy machine.
        #expect(
            try await poll {
                _ = try await presence(good).pin(request())
                return try good.commands.last == "BYE"
            })
    }

    @Test func `the program gets no other descriptor`() async throws {
        // A duplicate without close-on-exec. Its number is 100 or more, because a shell uses the
        // numbers from 10.
        let inherited = fcntl(2, F_DUPFD, 100)
        #expect(inherited >= 100)
        defer { close(inherited) }
        let fake = try FakePinentry(
            answering:
                "if [ -e /proc/$$/fd/\(inherited) ]; then echo 'D 1111'; else echo 'D 2580'; fi; echo OK"
        )
        #expect(try await presence(fake).pin(request()).text == "2580")
    }

    @Test func `untrusted text can't add a command`() async throws {
        let fake = try FakePinentry(answering: "echo 'D 2580'; echo OK")
        let context = PromptContext(reason: "a%0Ab\nGETINFO pid", container: "x\u{1B}[2J")
        _ = try await presence(fake).pin(PINRequest(purpose: .current, context: context))
        let commands = try fake.commands
        #expect(!commands.contains { $0.hasPrefix("GETINFO") || $0.contains("\u{1B}") })
        #expect(
            commands.contains {
                $0.hasPrefix("SETDESC") && $0.contains("a%250Ab\u{FFFD}GETINFO pid")
            })
    }

    @Test(arguments: [
        ("ERR 83886179 Operation cancelled", "you declined"),
        ("ERR 83886278 fully cancelled", "you declined"),
        ("ERR 83886194 not confirmed", "you declined"),
        ("ERR 83886142 timeout", "there was no answer in time"),
    ])
    func `a refusal is an answer`(line: String, refusal: String) async throws {
        let fake = try FakePinentry(answering: "echo '\(line)'")
        #expect(try await presence(fake).pin(request()).refusal == refusal)
    }

    @Test func `a program that can't prompt is unavailable, with its own code`() async throws {
        let fake = try FakePinentry(
            answering: "echo 'ERR 83918950 Inappropriate ioctl for device <Pinentry>'")
        let error = await #expect(throws: KeystoreError.self) {
            try await presence(fake).pin(request())
        }
        #expect(error?.code == .unavailable)
        #expect(error?.underlying?.rawCode == 83_918_950)
    }

    @Test func `a missing program is unavailable`() async throws {
        let missing = PinentryPresence(
            program: "/nonexistent/pinentry", environment: Self.environment)
        let error = await #expect(throws: KeystoreError.self) { try await missing.pin(request()) }
        #expect(error?.code == .unavailable)
    }

    @Test func `a new PIN is compared here if the program does not compare it`() async throws {
        let fake = try FakePinentry(
            answering:
                "n=$((n+1)); case $n in 1) echo 'D 1111';; 2) echo 'D 1112';; *) echo 'D 3333';; esac; echo OK"
        )
        #expect(try await presence(fake).pin(request(.new)).text == "3333")
        let commands = try fake.commands
        #expect(commands.filter { $0 == "GETPIN" }.count == 4)
        #expect(commands.contains("SETERROR The two PINs differ."))
        #expect(commands.contains("SETREPEAT New PIN again:"))
    }

    @Test func `a new PIN that the program has compared has one prompt`() async throws {
        let fake = try FakePinentry(answering: "echo 'S PIN_REPEATED'; echo 'D 2580'; echo OK")
        #expect(try await presence(fake).pin(request(.new)).text == "2580")
        #expect(try fake.commands.filter { $0 == "GETPIN" }.count == 1)
    }

    @Test func `three answers that are too short end in invalidInput`() async throws {
        let fake = try FakePinentry(answering: "echo OK")
        let error = await #expect(throws: KeystoreError.self) {
            try await presence(fake).pin(request())
        }
        #expect(error?.code == .invalidInput)
        #expect(try fake.commands.filter { $0 == "GETPIN" }.count == 3)
    }

    @Test(arguments: [
        "exit 0", "echo OK; exit 3", "echo rubbish; exec sleep 600",
        "echo 'D 1234'; echo OK; exec sleep 600",
        "head -c 5000 /dev/zero | tr '\\0' x; exec sleep 600", "while :; do echo '# noise'; done",
        "echo OK hi; while read -r l; do case $l in GETPIN) echo 'D 12%zz34'; echo OK;; *) echo OK;; esac; done",
        "echo OK hi; while read -r l; do case $l in GETPIN) echo 'D 12%2'; echo OK;; *) echo OK;; esac; done",
    ])
    func `a program that does not speak the protocol fails and is ended`(script: String)
        async throws
    {
        let fake = try FakePinentry(script: script)
        let error = await #expect(throws: KeystoreError.self) {
            try await presence(fake).pin(request())
        }
        #expect(error?.code == .failed)
    }

    @Test func `data beyond any PIN are refused`() async throws {
        let line = String(repeating: "1", count: 900)
        let fake = try FakePinentry(answering: "echo 'D \(line)'; echo OK")
        let error = await #expect(throws: KeystoreError.self) {
            try await presence(fake).pin(request())
        }
        #expect(error?.code == .invalidInput)
    }

    @Test func `a silent program declines at the deadline`() async throws {
        let fake = try FakePinentry(script: "exec sleep 600")
        let answer = try await presence(fake, timeout: .milliseconds(100)).pin(request())
        #expect(answer.refusal?.hasPrefix("there was no answer within") == true)
    }

    @Test func `cancelling ends the program`() async throws {
        let fake = try FakePinentry(
            script: "echo $$ > \"$LOG\"; trap '' TERM; while :; do sleep 0.05; done")
        let task = Task { try await presence(fake).pin(request()) }
        var process: pid_t?
        await poll {
            process = try? fake.commands.first.flatMap { pid_t($0) }
            return process != nil
        }
        task.cancel()
        #expect(try await task.value.refusal == "the prompt was cancelled")
        #expect(kill(try #require(process), 0) == -1)
    }

    @Test(.requires(program: "pinentry-curses"))
    func `pinentry-curses accepts a PIN at its terminal`() async throws {
        let terminal = try PseudoTerminal()
        let environment = Self.environment.merging(["GPG_TTY": terminal.path]) { $1 }
        let presence = PinentryPresence(
            program: "pinentry-curses", environment: environment, timeout: hangLimit)
        async let answer = presence.pin(request(attemptsLeft: 2))
        try await terminal.wait(for: "PIN:")
        terminal.type("2580\r")
        #expect(try await answer.text == "2580")
        #expect(terminal.isAsUsual)
    }

    @Test(.requires(program: "pinentry-curses"))
    func `pinentry-curses can be cancelled`() async throws {
        let terminal = try PseudoTerminal()
        let environment = Self.environment.merging(["GPG_TTY": terminal.path]) { $1 }
        let presence = PinentryPresence(
            program: "pinentry-curses", environment: environment, timeout: hangLimit)
        async let answer = presence.pin(request())
        try await terminal.wait(for: "PIN:")
        terminal.type("\t\t\r")
        #expect(try await answer.refusal == "you declined")
    }

    @Test(.requires(program: "pinentry-tty"))
    func `pinentry-tty prompts for a new PIN twice`() async throws {
        let terminal = try PseudoTerminal()
        let environment = Self.environment.merging(["GPG_TTY": terminal.path]) { $1 }
        let presence = PinentryPresence(
            program: "pinentry-tty", environment: environment, timeout: hangLimit)
        async let answer = presence.pin(request(.new))
        try await terminal.wait(for: "New PIN:")
        terminal.type("geheim\n")
        try await terminal.wait(for: "again:")
        terminal.type("geheim\n")
        #expect(try await answer.text == "geheim")
        #expect(terminal.isAsUsual)
    }
}
