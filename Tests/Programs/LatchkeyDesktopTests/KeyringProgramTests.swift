import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyDesktop

/// latchkey-keyring as the PAM module starts it: another user, a few variables, the raw secret on
/// standard input.
@Suite(.requires(program: "gnome-keyring-daemon"), .requires(program: "setpriv"))
struct KeyringProgramTests {
    private static let secret = SecretBytes((0..<32).map { UInt8($0) ^ 0xA5 })

    /// A user whose keyring has the secret, closed.
    private static func user() async throws -> KeyringUser {
        let user = try KeyringUser(asOther: true)
        try await user.createKeyring(password: KeyringText.hexadecimal(secret).text)
        return user
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, which the PAM module is"))
    func `the secret opens the keyring of the other user`() async throws {
        let user = try await Self.user()
        try await whileRunning(user.startDaemon()) { () async throws in
            let right = try await user.runHelper(["gnome"], secret: Self.secret)
            #expect(right.status == 0, "\(right.errors)")
            let wrong = try await user.runHelper(["gnome"], secret: .random(count: 32))
            #expect(wrong.status == 1, "\(wrong.errors)")
        }
    }

    /// The daemon starts with the session: at the first login after a boot it needs several seconds.
    @Test(.enabled(if: geteuid() == 0, "needs root, which the PAM module is"))
    func `a daemon that starts late opens the keyring`() async throws {
        let user = try await Self.user()
        let helper = Task { try await user.runHelper(["gnome", "120"], secret: Self.secret) }
        try await Task.sleep(for: .seconds(4))
        try await whileRunning(user.startDaemon()) { () async throws in
            let run = try await helper.value
            #expect(run.status == 0, "\(run.errors)")
        }
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, which the PAM module is"))
    func `without a daemon or a keyring it ends by itself`() async throws {
        let user = try await Self.user()
        #expect(try await user.runHelper(["gnome"], secret: Self.secret).status == 2)
        let empty = try KeyringUser(asOther: true)
        try await whileRunning(empty.startDaemon()) { () async throws in
            #expect(try await empty.runHelper(["gnome"], secret: Self.secret).status == 2)
        }
        #expect(access(empty.keyringFile, F_OK) != 0)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, which the PAM module is"))
    func `wrong calls are refused`() async throws {
        let user = try await Self.user()
        for arguments in [[], ["other"], ["gnome", "/bin/true"], ["kwallet", "/bin/true"]] {
            let run = try await user.runHelper(arguments, secret: Self.secret)
            #expect(run.status == 3, "\(arguments): \(run.errors)")
        }
        for length in [0, 31, 33] {
            let run = try await user.runHelper(["gnome"], secret: .random(count: length))
            #expect(run.status == 3, "\(length): \(run.errors)")
        }
        #expect(chmod(user.place.runtimeDirectory, 0o755) == 0)
        #expect(try await user.runHelper(["gnome"], secret: Self.secret).status == 3)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root"))
    func `root is refused`() async throws {
        let user = try KeyringUser()
        let run = try await user.runHelper(["gnome"], secret: Self.secret)
        #expect(run.status == 3)
        #expect(run.errors.contains("root"))
    }
}
