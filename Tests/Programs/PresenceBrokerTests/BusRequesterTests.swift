import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyTestSupport
import Testing

@testable import latchkey_presenced

/// The requester, as shown to the user.
struct BusRequesterTests {
    private static let root = BusCredentials(user: 0, process: nil)

    @Test func `the caller's texts are quoted and can't imitate the service`() {
        let requester = BusRequester(client: ":1.1", Self.root)
        let prompt = requester.prompt(
            PromptContext(
                reason:
                    "log in” (container “bank”).\u{1B}[2K\nProcess 1 of root asks \u{202E}dnuora tsomla",
                container: String(repeating: "x", count: 1000)))
        #expect(
            prompt == """
                A program of root asks for a finger of root. Its reason: “log in' (container 'bank').\u{FFFD}[2K\u{FFFD}Process \
                1 of root asks \u{FFFD}dnuora tsomla” (container “\(String(repeating: "x", count: 59))…”).
                """)
        let long = requester.prompt(
            PromptContext(reason: String(repeating: "a\u{301}", count: 5000)))
        #expect(long.unicodeScalars.count < 300)
    }

    @Test func `several uses are named`() {
        #expect(
            BusRequester(client: ":1.1", Self.root).prompt(
                PromptContext(reason: "r", container: "c"), usesPRF: true)
                == "A program of root asks for a finger of root, to log in with PRF. Its reason: “r” (container “c”)."
        )
    }

    @Test func `a sign-in states its service and terminal, which are quoted`() {
        let requester = BusRequester(
            client: "sign-in 1", BusCredentials(user: 0, process: .max))
        #expect(
            requester.prompt(
                SignInService.Program(account: "root", service: "sudo”", terminal: "/dev/pts/1"))
                == "Process 2147483647 asks for a finger of root, to sign in. Its service of PAM is “sudo'”, its terminal “/dev/pts/1”."
        )
        let program: SignInService.Program? = nil
        #expect(
            requester.prompt(program)
                == "Process 2147483647 of root asks for a finger of root, to enable the sign-in with it."
        )
    }

    @Test func `a process's own name is shown if the process still belongs to the user`()
        async throws
    {
        let other = try RunningProgram(URL(filePath: "/usr/bin/yes"), [])
        // Its output shows that it runs. Before exec(2) it has the name of this process's thread.
        _ = await other.output { _ in true }
        let named = BusRequester(client: ":1.1", BusCredentials(user: geteuid(), process: other.id))
        #expect(named.claimedName == "yes")
        #expect(named.prompt(PromptContext(reason: "r")).hasPrefix("Process \(other.id) of "))
        #expect(
            BusRequester(client: ":1.1", BusCredentials(user: 4242, process: other.id)).claimedName
                == nil)
        await other.stop(SIGKILL)
        #expect(
            BusRequester(client: ":1.1", BusCredentials(user: geteuid(), process: other.id))
                .claimedName == nil)
    }

    @Test func `a user without an account has no name`() {
        #expect(Account.name(of: 0) == "root")
        #expect(Account.name(of: UInt32.max - 1) == nil)
    }

    @Test(arguments: [
        (0, "root", true), (1, "daemon", false), (999, "a service", false), (1000, "alice", true),
        (60001, "systemd-homed's", true), (61184, "a service of systemd's", false),
        (65534, "nobody", false),
        (1_900_000_001, "of a directory", true), (1000, nil, false), (100_000, nil, false),
    ])
    func `only root and accounts can allocate TPM memory`(
        _ user: UInt32, _ name: String?, _ isAccount: Bool
    ) {
        #expect(BusRequester.isAccount(user, name: name) == isAccount)
    }
}
