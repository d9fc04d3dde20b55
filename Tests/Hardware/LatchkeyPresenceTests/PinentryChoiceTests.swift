import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import LatchkeyPresence

/// Questions with two or three buttons, with scripted pinentry programs.
struct PinentryChoiceTests {
    private static let three = PinentryChoice.Buttons(
        accept: "Use", other: "Not here", cancel: "No")
    private static let two = PinentryChoice.Buttons(accept: "Yes", other: nil, cancel: "No")

    @Test(
        arguments: [
            ("echo OK", .accepted, .accepted),
            ("echo 'ERR 83886194 Not confirmed'", .other, .cancelled),
            ("echo 'ERR 83886179 Operation cancelled'", .cancelled, .cancelled),
            ("echo 'ERR 83886142 Timeout'", .unanswered, .unanswered),
        ] as [(String, PinentryChoice.Answer, PinentryChoice.Answer)])
    func `the program's answer is the user's choice`(
        answer: String, ofThree: PinentryChoice.Answer, ofTwo: PinentryChoice.Answer
    ) async throws {
        let pinentry = try program(answer)
        #expect(
            try await choice(pinentry).ask(
                "Log in?\nNow", Self.three, isConsent: true, within: hangLimit) == ofThree
        )
        let commands = try pinentry.commands
        #expect(commands.contains("SETDESC Log in?%0ANow"))
        #expect(commands.contains("SETOK Use"))
        #expect(commands.contains("SETNOTOK Not here"))
        #expect(commands.contains("SETCANCEL No"))
        let second = try program(answer)
        #expect(
            try await choice(second).ask(
                "Log in?", Self.two, isConsent: true, within: hangLimit) == ofTwo)
        #expect(try second.commands.contains("SETCANCEL No"))
    }

    @Test func `GNOME's program with two buttons offers the second choice instead of the refusal`()
        async throws
    {
        let pinentry = try program("echo 'ERR 83886179 Operation cancelled'", flavor: "gnome3")
        #expect(
            try await choice(pinentry).ask(
                "Log in?", Self.three, isConsent: false, within: hangLimit) == .otherOfTwo)
        let commands = try pinentry.commands
        #expect(commands.contains("SETCANCEL Not here"))
        #expect(!commands.contains { $0.hasPrefix("SETNOTOK") })
    }

    @Test func `cancelling the task ends the program`() async throws {
        let pinentry = try program("echo waiting >> \"$LOG\"; exec sleep 1000")
        let choice = choice(pinentry)
        let task = Task {
            try await choice.ask("Log in?", Self.three, isConsent: true, within: hangLimit)
        }
        #expect(await poll { (try? pinentry.commands.contains("waiting")) == true })
        task.cancel()
        #expect(try await task.value == .unanswered)
    }

    @Test(
        arguments: [
            ("echo 'ERR 83886340 No display'", CommonErrorCode.unavailable), ("exit 0", .failed),
            ("while :; do echo '# noise'; done", .failed), ("echo nonsense", .failed),
        ])
    func `a program that cannot prompt is an error`(answer: String, code: CommonErrorCode)
        async throws
    {
        let pinentry = try program(answer)
        let error = await #expect(throws: KeystoreError.self) {
            try await choice(pinentry).ask(
                "Log in?", Self.three, isConsent: true, within: hangLimit)
        }
        #expect(error?.code == code)
    }

    @Test func `a program that rejects the question gets no confirmation`() async throws {
        let pinentry = try program("echo OK", description: "echo 'ERR 83886360 Line too long'")
        let error = await #expect(throws: KeystoreError.self) {
            try await choice(pinentry).ask(
                "Log in?", Self.three, isConsent: true, within: hangLimit)
        }
        #expect(error?.code == .unavailable)
        let commands = try pinentry.commands
        #expect(commands.contains("SETDESC Log in?") && !commands.contains("CONFIRM"))
    }

    @Test(arguments: [
        "gnome3", "gnome3:curses", "gtk2:curses", "qt:curses", "curses", "tty", "mac", "''",
    ])
    func `only a word is consent where Return chooses the first button`(flavor: String) async throws
    {
        let answers: [(String, PinentryChoice.Answer)] = [
            ("echo OK", .otherOfTwo), ("printf 'D yes\\nOK\\n'", .accepted),
            ("printf 'D Yes\\nOK\\n'", .accepted), ("printf 'D no\\nOK\\n'", .cancelled),
            ("printf 'D hunter2\\nOK\\n'", .otherOfTwo),
            ("printf 'D yes\\nD yes\\nOK\\n'", .otherOfTwo),
            ("echo 'ERR 83886179 Operation cancelled'", .otherOfTwo),
            ("echo 'ERR 83886142 Timeout'", .unanswered),
        ]
        for (answer, expected) in answers {
            let pinentry = try program(answer, flavor: flavor)
            let made = try await choice(pinentry).ask(
                "Log in?", Self.three, isConsent: true, within: hangLimit)
            #expect(made == expected, "\(answer)")
            let commands = try pinentry.commands
            #expect(commands.contains("GETPIN") && !commands.contains("CONFIRM"))
            let isOther = expected == .otherOfTwo && answer.contains("D ")
            #expect(commands.count { $0 == "GETPIN" } == (isOther ? 3 : 1), "\(answer)")
            #expect(
                commands.contains("SETDESC Log in?%0A%0ATo agree, type yes and choose “Use”."))
        }
    }

    @Test(arguments: [("yes", .accepted), ("no", .cancelled)] as [(String, PinentryChoice.Answer)])
    func `another word than yes and no is asked for again`(
        word: String, expected: PinentryChoice.Answer
    ) async throws {
        let answer =
            "n=$((${n:-0} + 1)); case $n in 1) word=y ;; 2) word= ;; *) word=\(word) ;; esac; "
            + "printf 'D %s\\nOK\\n' \"$word\""
        let pinentry = try program(answer, flavor: "gnome3")
        let made = try await choice(pinentry).ask(
            "Log in?", Self.three, isConsent: true, within: hangLimit)
        #expect(made == expected)
        let commands = try pinentry.commands
        #expect(commands.count { $0 == "GETPIN" } == 3)
        #expect(commands.count { $0 == "SETERROR Type yes or no." } == 2)
    }

    @Test(arguments: [
        ("gtk2", true), ("gnome3", true), ("''", true), ("curses", false), ("tty", false),
        ("gtk2:curses", false), ("gnome3:curses", false),
    ])
    func `without a terminal, a program for terminals shows no window`(
        flavor: String, isUsable: Bool
    ) async throws {
        let pinentry = try program("exit 1", flavor: flavor)
        var error: KeystoreError?
        do throws(KeystoreError) {
            try await PinentryChoice(
                environment: ["PINENTRY_PROGRAM": pinentry.path, "PATH": "/usr/bin:/bin"],
                hasTerminal: false
            ).check()
        } catch let caught {
            error = caught
        }
        #expect(error?.code == (isUsable ? nil : .unavailable))
        #expect(
            try pinentry.commands.allSatisfy { !$0.hasPrefix("SETDESC") && $0 != "CONFIRM" })
        let terminal = PinentryChoice(environment: [
            "PINENTRY_PROGRAM": pinentry.path, "PATH": "/usr/bin:/bin", "GPG_TTY": "/dev/pts/99",
        ])
        try await terminal.check()
    }

    @Test func `a message has one button`() async throws {
        let pinentry = try program("echo OK")
        try await choice(pinentry).show("The TPM is locked.", within: hangLimit)
        let commands = try pinentry.commands
        #expect(commands.contains("SETDESC The TPM is locked.") && commands.contains("MESSAGE"))
        #expect(!commands.contains { $0.hasPrefix("SETCANCEL") || $0.hasPrefix("SETNOTOK") })
    }

    private func choice(_ pinentry: FakePinentry) -> PinentryChoice {
        PinentryChoice(environment: ["PINENTRY_PROGRAM": pinentry.path, "PATH": "/usr/bin:/bin"])
    }

    private func program(
        _ answer: String, flavor: String = "gtk2", description: String = "echo OK"
    ) throws -> FakePinentry {
        try FakePinentry(
            script: """
                echo "OK Pleased to meet you"
                while IFS= read -r line; do
                    printf '%s\\n' "$line" >> "$LOG"
                    case "$line" in
                    "GETINFO flavor") printf 'D %s\\nOK\\n' \(flavor) ;;
                    SETDESC*) \(description) ;;
                    CONFIRM | GETPIN | MESSAGE) \(answer) ;;
                    BYE) echo OK; exit 0 ;;
                    *) echo OK ;;
                    esac
                done
                """)
    }
}
