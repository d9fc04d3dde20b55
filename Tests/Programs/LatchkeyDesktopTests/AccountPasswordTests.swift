import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import LatchkeyDesktop

/// The check with a helper in a shell. `DesktopCommandTests` has the system's.
@Suite struct AccountPasswordTests {
    private static let password = SecretBytes("pass word".utf8)

    private static func isRight(
        _ password: SecretBytes = password, helper: String, within limit: Duration = hangLimit
    ) throws -> Bool {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let program = try directory.makeScript("helper", "#!/bin/sh\n\(helper)\n")
        return try AccountPassword.isRight(
            password, of: "ann", until: .now + limit, program: program)
    }

    @Test func `the helper gets the user as its argument, and the password on a pipe`() throws {
        let check = #"[ "$*" = "ann nonull" ] && [ "$(tr '\0' '|')" = "pass word|" ] || exit 7"#
        #expect(try Self.isRight(helper: check))
        #expect(try !Self.isRight(SecretBytes("other".utf8), helper: check))
    }

    @Test func `the helper has no blocked signals`() throws {
        var blocked = sigset_t()
        sigemptyset(&blocked)
        sigaddset(&blocked, SIGTERM)
        var old = sigset_t()
        try #require(pthread_sigmask(SIG_BLOCK, &blocked, &old) == 0)
        defer { pthread_sigmask(SIG_SETMASK, &old, nil) }
        // A shell unblocks signals for its children, but not for a program that replaces it.
        #expect(try Self.isRight(helper: "exec grep -q '^SigBlk:[^1-9a-f]*$' /proc/self/status"))
    }

    @Test func `an answer other than right and wrong is an error`() throws {
        // Also of a helper that does not read, such as one that refuses the account.
        for status in [1, 8, 9, 10] {
            #expect(throws: CommonError.of(.unsupported), "\(status)") {
                try Self.isRight(helper: "exit \(status)")
            }
        }
        #expect(throws: CommonError.of(.unavailable)) { try Self.isRight(helper: "kill -9 $$") }
        #expect(throws: CommonError.of(.unavailable)) {
            try Self.isRight(helper: "exec sleep 300", within: .milliseconds(100))
        }
        #expect(throws: CommonError.of(.unavailable)) {
            try AccountPassword.isRight(
                Self.password, of: "ann", until: .now + hangLimit, program: "/nonexistent/helper")
        }
    }

    @Test func `a text that cannot be a password is not passed on`() throws {
        for wrong in [[], [0], Array("a\0b".utf8), Array(repeating: 97, count: 512)] as [[UInt8]] {
            #expect(throws: CommonError.of(.invalidInput)) {
                try Self.isRight(SecretBytes(wrong), helper: "exit 0")
            }
        }
    }
}
