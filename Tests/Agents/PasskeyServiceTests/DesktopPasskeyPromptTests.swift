import Foundation
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Logging
import Synchronization
import Testing

@testable import LatchkeyPasskeys
@testable import latchkey_passkeys

/// The windows of passkeys, with a scripted pinentry program and no fingerprint reader.
struct DesktopPasskeyPromptTests {
    @Test(
        arguments: [("use", .use(0)), ("other", .notHere), ("no", .no)] as [(String, PasskeyChoice)]
    )
    func `the button is the choice`(button: String, choice: PasskeyChoice) async throws {
        let desk = try Desk(choices: [button])
        #expect(await desk.prompt.choose(question(["ada"])) == choice)
        #expect(
            try desk.descriptions == [
                "The program “firefox” asks to log in to “example.com” as “ada” with a passkey of this computer."
            ])
    }

    @Test func `a ready finger replaces the question of a login that requests the PIN`()
        async throws
    {
        let desk = try Desk(choices: ["no", "no"], broker: ReadyReader())
        #expect(await desk.prompt.choose(question(["ada"]), promptsForPIN: { true }) == .use(0))
        #expect(throws: (any Error).self, "no window was shown") { try desk.descriptions }
        #expect(await desk.prompt.choose(question(["ada"]), promptsForPIN: { false }) == .no)
        // A new key requires the PIN, also with a finger.
        #expect(
            await desk.prompt.choose(
                question(["ada"], purpose: .create(replaces: false), site: "example.org"),
                promptsForPIN: { true })
                == .no)
        #expect(try desk.descriptions.count == 2)
    }

    @Test func `after a wrong finger, the reader waits again while the window is open`()
        async throws
    {
        let reader = WrongFingers(2)
        let desk = try Desk(choices: ["wait"], broker: reader)
        let verification = desk.prompt.verification(for: question(["ada"]))
        let broker = try #require(verification.broker?.approvals)
        let context = PromptContext(reason: "log in")
        let request = ApprovalRequest(
            use: .unseal, keyName: Data(), nonceTPM: Data(), policy: .userPresence,
            context: context)
        let window = Task {
            try await verification.pin(
                PINRequest(purpose: .current, context: context, attemptsLeft: nil))
        }
        #expect(await poll { (try? desk.descriptions)?.count == 1 })
        guard case .declined = try await broker.approve(request) else {
            Issue.record("the last answer of the reader was not used")
            return
        }
        #expect(reader.count == 3)
        window.cancel()
        _ = try? await window.value
    }

    @Test func `an account is chosen by its own window`() async throws {
        let desk = try Desk(choices: ["use", "other", "other", "other", "use"])
        #expect(await desk.prompt.choose(question(["ada", "bob", "eve"])) == .use(0))
        #expect(try desk.descriptions.count == 5)
        #expect(try desk.descriptions[2] == "Account 2 of 3 at “example.com”: “bob”")
        let second = try Desk(choices: ["use", "other", "use"])
        #expect(await second.prompt.choose(question(["ada", "bob"])) == .use(1))
        let refused = try Desk(choices: ["use", "no"])
        #expect(await refused.prompt.choose(question(["ada", "bob"])) == .no)
    }

    @Test func `with two buttons, the choice of an account ends after one round`() async throws {
        let desk = try Desk(choices: ["use", "no", "no", "use"], flavor: "gnome3")
        #expect(await desk.prompt.choose(question(["ada", "bob"])) == .notHere)
        #expect(try desk.descriptions.count == 3)
        let second = try Desk(choices: ["use", "no", "use"], flavor: "gnome3")
        #expect(await second.prompt.choose(question(["ada", "bob"])) == .use(1))
    }

    @Test func `on GNOME, Return is no consent`() async throws {
        let desk = try Desk(choices: ["return", "return", "return", "return"], flavor: "gnome3")
        for purpose in [
            PasskeyQuestion.Purpose.selectDevice, .alreadyRegistered, .create(replaces: false),
        ] {
            #expect(await desk.prompt.choose(question([], purpose: purpose)) == .notHere)
        }
        // Without a PIN, only a touch would follow.
        #expect(
            await desk.prompt.choose(question(["ada"]), promptsForPIN: { false }) == .notHere)
        let typed = try Desk(
            choices: ["use", "return"], flavor: "gnome3", pins: ScriptedPresence(pins: "1"))
        #expect(await typed.prompt.choose(question([], purpose: .selectDevice)) == .use(0))
        // The user must enter the PIN now.
        #expect(await typed.prompt.choose(question(["ada"])) == .use(0))
        // The PIN comes without the user, as from a file.
        let file = try Desk(choices: ["return"], flavor: "gnome3", pins: NobodyPresent())
        #expect(await file.prompt.choose(question(["ada"])) == .notHere)
    }

    @Test func `a request that failed after a consent has a window, until the next one`()
        async throws
    {
        let desk = try Desk(choices: ["use"])
        let error = KeystoreError(
            code: .lockedOut, reason: "the TPM is locked", recovery: "Wait until 12:00.")
        await desk.prompt.report(error, of: question(["ada"]))
        #expect(await poll { (try? desk.messages) == 1 })
        #expect(
            try desk.descriptions == [
                "The passkey for “example.com” was not used: the TPM is locked. Wait until 12:00."
            ])
        #expect(await desk.prompt.choose(question(["ada"])) == .use(0))
        #expect(await poll { !desk.isMessageOpen }, "the next window replaces it")
    }

    @Test func `a program without windows is found before a request`() async throws {
        let desk = try Desk(choices: [])
        #expect(await desk.prompt.canPrompt())
        let missing = DesktopPasskeyPrompt(
            environment: ["PINENTRY_PROGRAM": "/nonexistent"], pins: NobodyPresent(), broker: nil,
            log: Logger(label: "test"))
        #expect(await !missing.canPrompt())
    }

    @Test func `a locked session gets no window, and the request stays unanswered`() async throws {
        let lock = Switch()
        let desk = try Desk(choices: ["use"], broker: ReadyReader(), isLocked: { lock.isOn })
        #expect(await desk.prompt.choose(question(["ada"])) == .notHere)
        #expect(await desk.prompt.choose(question(["ada"]), promptsForPIN: { false }) == .notHere)
        #expect(throws: (any Error).self, "no window was shown") { try desk.descriptions }
        lock.turnOff()
        #expect(await desk.prompt.choose(question(["ada"]), promptsForPIN: { false }) == .use(0))
    }

    @Test func `the choice in the window of a verification ends with it`() async throws {
        let desk = try Desk(choices: ["other", "wait"], broker: ReadyReader())
        let question = question(["ada"], site: nil)
        let request = PINRequest(
            purpose: .current, context: PromptContext(reason: "test"), attemptsLeft: nil)
        let prompt = desk.prompt
        _ = try await prompt.verification(for: question).pin(request)
        #expect(await prompt.refusal(of: question) == .notHere)
        #expect(await prompt.refusal(of: question) == .no, "the choice counts once")
        let task = Task { _ = try await prompt.verification(for: question).pin(request) }
        #expect(await poll { (try? desk.descriptions.count) ?? 0 > 1 })
        task.cancel()
        _ = await task.result
        #expect(await prompt.refusal(of: question) == .no, "a window that closes is not a choice")
    }

    @Test func `without a program for windows the request stays unanswered`() async throws {
        let prompt = DesktopPasskeyPrompt(
            environment: ["PINENTRY_PROGRAM": "/nonexistent"], pins: NobodyPresent(), broker: nil,
            log: Logger(label: "test"))
        #expect(await prompt.choose(question(["ada"])) == .notHere)
    }

    @Test func `a cancelled request closes its window`() async throws {
        let desk = try Desk(choices: ["wait"])
        let prompt = desk.prompt
        let task = Task { await prompt.choose(question(["ada"])) }
        #expect(await poll { (try? desk.descriptions.count) == 1 })
        task.cancel()
        #expect(await task.value == .notHere)
    }

    @Test func `the text states the purpose, the program and PRF`() {
        #expect(
            question(["ada"], purpose: .create(replaces: true), usesPRF: true).text
                == "The program “firefox” asks to create a passkey on this computer for “example.com” as “ada”. It replaces "
                + "the existing passkey of this account. The site also gets a secret from this passkey, for example to "
                + "decrypt data.")
        #expect(
            question([], purpose: .selectDevice, site: nil, programs: []).text
                == "A program asks whether to use this computer or another security key.")
        #expect(
            question([], purpose: .selectDevice, site: nil, programs: ["firefox", "firefox"]).text
                == "One of 2 programs, “firefox, firefox”, asks whether to use this computer or another security key."
        )
    }

    @Test func `a long site keeps its end within the limits of all prompts`() {
        let site = "www.bank.example." + String(repeating: "a", count: 100) + ".attacker.example"
        for purpose in [
            PasskeyQuestion.Purpose.create(replaces: false), .signIn, .alreadyRegistered,
        ] {
            let long = question(["ada"], purpose: purpose, site: site)
            for text in [long.text, String(oneLine: long.reason(account: 0), limit: 120)] {
                #expect(text.contains("aa.attacker.example"), "\(text)")
                #expect(!text.contains("bank"), "\(text)")
            }
        }
    }

    @Test func `the application of an SSH key does not look like a domain`() {
        let site = "ssh:" + String(repeating: " ", count: 60) + "accounts.google.com"
        let hostile = question(["ada"], site: site)
        for text in [hostile.text, hostile.reason(account: 0)] {
            #expect(text.contains("“ssh:"), "\(text)")
            #expect(!text.contains("google"), "\(text)")
        }
    }

    @Test func `texts of the site and the program stay in their quotation marks`() {
        let hostile = question(
            ["ada” with a passkey of “bank.example\""],
            site: "ssh:a” as “root”. Choose “Use\u{2033}",
            programs: ["a” asks nothing. “b"])
        #expect(
            hostile.text
                == "The program “a' asks nothing. 'b” asks to log in to "
                + "“ssh:a' as 'root'. Choose 'Use'” as “ada' with a passkey of "
                + "'bank.example'” with a passkey of this computer.")
        #expect(
            hostile.reason(account: 0)
                == "log in to “ssh:a' as 'root'. Choose 'Use'” as "
                + "“ada' with a passkey of 'bank.example'” "
                + "(requested by “a' asks nothing. 'b”)")
    }

    @Test func `two programs with one name are two programs`() {
        let question = question(["ada"], programs: ["firefox", "firefox"])
        #expect(
            question.text
                == "One of 2 programs, “firefox, firefox”, asks to log in to “example.com” as “ada” "
                + "with a passkey of this computer.")
        #expect(
            question.reason(account: 0)
                == "log in to “example.com” as “ada” "
                + "(requested by one of 2 programs: “firefox, firefox”)")
    }

    private func question(
        _ accounts: [String], purpose: PasskeyQuestion.Purpose = .signIn,
        site: String? = "example.com",
        usesPRF: Bool = false, programs: [String] = ["firefox"]
    ) -> PasskeyQuestion {
        PasskeyQuestion(
            purpose: purpose, site: site, accounts: accounts, usesPRF: usesPRF,
            openers: programs.isEmpty
                ? nil
                : DeviceOpeners(
                    Dictionary(uniqueKeysWithValues: zip(Int32(1)..., programs))),
            timeLimit: hangLimit)
    }
}

/// A desktop with a scripted user.
private final class Desk: Sendable {
    let prompt: DesktopPasskeyPrompt
    private let directory: TemporaryDirectory

    /// - Parameter choices: The answers of the windows, in order: `use`, `other`, `no`, `return` (the
    ///   key) or `wait`.
    init(
        choices: [String], flavor: String = "gtk2", broker: (any ApprovalService)? = nil,
        pins: any PresenceAuthority = NobodyPresent(),
        isLocked: @escaping @Sendable () async -> Bool = { false }
    ) throws {
        directory = try TemporaryDirectory()
        try Data(choices.map { "\($0)\n" }.joined().utf8).write(
            to: URL(filePath: directory.path(of: "choices")))
        let program = try directory.makeScript(
            "pinentry",
            """
            #!/bin/sh
            cd \(directory.path)
            echo "OK Pleased to meet you"
            while IFS= read -r line; do
                case "$line" in
                "GETINFO flavor") echo "D \(flavor)"; echo OK ;;
                SETDESC*) printf '%s\\n' "${line#SETDESC }" >>descriptions; echo OK ;;
                MESSAGE) echo $$ >>messages; exec sleep 1000 ;;
                CONFIRM | GETPIN)
                    answer=$(head -n 1 choices); sed -i 1d choices
                    case $answer in
                    use) [ "$line" = CONFIRM ] || echo "D yes"; echo OK ;;
                    return) echo OK ;;
                    other) echo "ERR 83886194 Not confirmed" ;;
                    no) echo "ERR 83886179 Operation cancelled" ;;
                    *) exec sleep 1000 ;;
                    esac ;;
                *) echo OK ;;
                esac
            done

            """)
        prompt = DesktopPasskeyPrompt(
            environment: ["PINENTRY_PROGRAM": program, "PATH": "/usr/bin:/bin"],
            pins: pins, broker: broker,
            log: Logger(label: "test"), isLocked: isLocked)
    }

    /// The number of messages.
    var messages: Int {
        get throws { try messageProcesses.count }
    }
    /// Whether the program of a message runs.
    var isMessageOpen: Bool {
        ((try? messageProcesses) ?? []).contains { kill($0, 0) == 0 }
    }
    private var messageProcesses: [pid_t] {
        get throws {
            try String(contentsOfFile: directory.path(of: "messages"), encoding: .utf8)
                .split(separator: "\n").compactMap { pid_t($0) }
        }
    }

    var descriptions: [String] {
        get throws {
            try String(contentsOfFile: directory.path(of: "descriptions"), encoding: .utf8)
                .split(separator: "\n").map(String.init)
        }
    }
}

extension DesktopPasskeyPrompt {
    fileprivate func choose(_ question: PasskeyQuestion) async -> PasskeyChoice {
        await choose(question, promptsForPIN: { true })
    }
}

/// A presence broker with a finger that can be read, which does not approve.
private struct ReadyReader: ApprovalService {
    private static let refusal = KeystoreError(code: .refused, reason: "no", recovery: "None.")

    func fingerState() async -> FingerState { .ready }
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        throw Self.refusal
    }
    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        throw Self.refusal
    }
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN { throw Self.refusal }
}

/// A reader that sees wrong fingers, and then none.
private final class WrongFingers: ApprovalService {
    private static let refusal = KeystoreError(code: .refused, reason: "no", recovery: "None.")

    private let attempts = Mutex(0)
    private let wrong: Int

    init(_ wrong: Int) { self.wrong = wrong }

    var count: Int { attempts.withLock(\.self) }

    func fingerState() async -> FingerState { .ready }
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        throw Self.refusal
    }
    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        let number = attempts.withLock {
            $0 += 1
            return $0
        }
        return number <= wrong ? .notRecognised : .declined("no finger was placed in time")
    }
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN { throw Self.refusal }
}

/// A state that is on until the test turns it off.
private final class Switch: Sendable {
    private let state = Mutex(true)

    var isOn: Bool { state.withLock { $0 } }

    func turnOff() { state.withLock { $0 = false } }
}
