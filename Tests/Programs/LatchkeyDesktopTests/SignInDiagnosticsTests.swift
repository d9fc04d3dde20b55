import Foundation
import LatchkeyDesktop
import LatchkeySimulators
import Testing

@testable import LatchkeyDesktop
@testable import latchkey

/// The doctor's check of the sign-in, with the files of other machines.
@Suite struct SignInDiagnosticsTests {
    private static let on = """
        auth [success=end default=ignore] pam_latchkey.so
        auth [success=1 default=ignore] pam_unix.so try_first_pass
        auth optional pam_latchkey.so learn
        """
    private static let module = "lib/x86_64-linux-gnu/security/pam_latchkey.so"

    /// The state and the finding of a machine.
    private static func check(
        _ files: [String: String], isServed: Bool = true
    ) throws -> Check {
        let directory = try TemporaryDirectory()
        for (path, text) in files {
            let file = directory.url.appending(path: path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }
        let socket = directory.path(of: "login")
        let service = isServed ? try ScriptedListener(socket) { [] } : nil
        defer { service?.end() }
        let check = SignInDiagnostics(stack: SignInStack(root: directory.path), socket: socket)
            .check()
        withExtendedLifetime(directory) {}
        return check
    }

    @Test func `each state of the installation has its finding`() throws {
        let none = try Self.check(["etc/pam.d/common-auth": "auth required pam_unix.so\n"])
        #expect(none.state == .ok && none.finding.contains("is not installed"))
        let missing = try Self.check(["etc/pam.d/common-auth": Self.on])
        #expect(missing.state == .warning && missing.finding.contains("which is not installed"))
        let off = try Self.check([
            Self.module: "", "etc/pam.d/common-auth": "auth required pam_unix.so\n",
        ])
        #expect(off.state == .ok && off.finding.contains("is off"))
        let prompting = Self.on.replacing("auth optional pam_latchkey.so learn", with: "")
        let unproven = try Self.check([Self.module: "", "etc/pam.d/common-auth": prompting])
        #expect(
            unproven.state == .warning
                && unproven.finding.contains("no line ‘pam_latchkey.so learn’"))
        let learning = try Self.check([
            Self.module: "",
            "etc/pam.d/common-auth":
                "auth required pam_unix.so\nauth optional pam_latchkey.so learn\n",
        ])
        #expect(learning.state == .ok && learning.finding.contains("is off"))
        let silent = try Self.check(
            [Self.module: "", "etc/pam.d/common-auth": Self.on], isServed: false)
        #expect(silent.state == .warning && silent.finding.contains("does not answer"))
        let complete = try Self.check([Self.module: "", "etc/pam.d/common-auth": Self.on])
        #expect(complete.state == .ok, "\(complete.finding)")
        #expect(complete.finding.contains("can sign in"))
        #expect(complete.finding.contains("pam_latchkey.so, pam_unix.so"))
    }

    /// The profiles of both exclude each other.
    @Test func `fingers of other users that this profile turned off are named`() throws {
        let files = [
            Self.module: "", "lib/x86_64-linux-gnu/security/pam_fprintd.so": "",
            "etc/pam.d/common-auth": Self.on,
        ]
        let check = try Self.check(files)
        #expect(check.state == .ok && check.finding.contains("pam_fprintd.so is installed and off"))
        let both = "auth sufficient pam_fprintd.so\n" + Self.on
        let used = try Self.check(files.merging(["etc/pam.d/common-auth": both]) { $1 })
        #expect(!used.finding.contains("is installed and off"), "\(used.finding)")
    }

    @Test func `lines of other modules that prompt again or hide the password are found`() throws {
        let cases: [([String: String], String)] = [
            (
                [
                    "etc/pam.d/common-auth":
                        "auth sufficient pam_unix.so\nauth optional pam_latchkey.so\nauth optional pam_latchkey.so learn\n"
                ], "tried as a password"
            ),
            (["etc/pam.d/sddm": "-auth optional pam_kwallet5.so\n"], "pam_kwallet5.so"),
            (["etc/pam.d/gdm-fingerprint": "auth required pam_fprintd.so\n"], "pam_fprintd.so"),
            (["etc/pam.d/common-session": "session optional pam_mount.so\n"], "pam_mount.so"),
        ]
        for (files, words) in cases {
            let base = [Self.module: "", "etc/pam.d/common-auth": Self.on]
            let check = try Self.check(base.merging(files) { $1 })
            #expect(check.state == .warning, "\(words)")
            #expect(check.finding.contains(words), "\(check.finding)")
        }
    }
}
