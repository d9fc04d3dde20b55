import Foundation
import LatchkeySimulators
import Testing

@testable import LatchkeyDesktop

@Suite struct SignInStackTests {
    private static func machine(_ files: [String: String]) throws -> (
        TemporaryDirectory, SignInStack
    ) {
        let directory = try TemporaryDirectory()
        for (path, text) in files {
            let file = directory.url.appending(path: path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }
        return (directory, SignInStack(root: directory.path))
    }

    @Test func `the lines of a service include those of other files`() throws {
        let (directory, stack) = try Self.machine([
            "etc/pam.d/login": """
            # auth required pam_commented.so
            auth  optional pam_faildelay.so  delay=3000000 # a comment
            @include common-auth
            session include common-session
            -session optional pam_missing.so
            auth [success=1 \\
              default=ignore] /lib/security/pam_long.so
            """,
            "etc/pam.d/common-auth": """
            auth [success=end default=ignore] pam_latchkey.so
            auth [success=1 default=ignore] pam_unix.so try_first_pass
            """,
            "etc/pam.d/common-session":
                "auth required pam_other_type.so\nsession optional pam_mount.so\n",
        ])
        defer { withExtendedLifetime(directory) {} }
        let lines = try #require(stack.lines(of: "login"))
        #expect(
            lines.map(\.module) == [
                "pam_faildelay.so", "pam_latchkey.so", "pam_unix.so", "pam_mount.so",
                "pam_missing.so", "pam_long.so",
            ])
        #expect(lines[0].arguments == ["delay=3000000"])
        #expect(lines[4].type == "session")
        #expect(stack.commonService == "common-auth")
        #expect(stack.modulesNeedingPassword == ["pam_mount.so"])
        #expect(stack.lines(of: "absent") == nil)
        #expect(stack.lines(of: "../pam.d/login") == nil)
    }

    @Test func `files that include each other end`() throws {
        let (directory, stack) = try Self.machine([
            "etc/pam.d/a": "auth required pam_a.so\n@include b\n",
            "etc/pam.d/b": "@include a\n@include a\n",
        ])
        defer { withExtendedLifetime(directory) {} }
        #expect(try #require(stack.lines(of: "a")).count <= 1000)
    }

    @Test func `lines of other modules that matter are found`() throws {
        let (directory, stack) = try Self.machine([
            "etc/pam.d/sddm":
                "-auth optional pam_kwallet5.so\n-session optional pam_kwallet5.so auto_start\n",
            "etc/pam.d/gdm-fingerprint": "auth required pam_fprintd.so\n",
            "usr/lib/x86_64-linux-gnu/security/pam_latchkey.so": "",
        ])
        defer { withExtendedLifetime(directory) {} }
        #expect(stack.walletLines.map(\.type) == ["auth", "session"])
        #expect(stack.gdmUsesFprintd == true)
        #expect(stack.isInstalled())
        #expect(!stack.isInstalled("pam_fprintd.so"))
        let (other, empty) = try Self.machine(["etc/hostname": "x"])
        defer { withExtendedLifetime(other) {} }
        #expect(empty.walletLines.isEmpty)
        #expect(empty.gdmUsesFprintd == nil)
        #expect(!empty.isInstalled())
        #expect(empty.commonService == nil)
    }
}
