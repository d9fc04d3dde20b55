import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// The PAM module with services that answer as the tests say.
@Suite(
    .requires(program: "cc"), .requires(program: "pamtester"), .requires(program: "unshare"),
    .enabled(if: geteuid() == 0, "needs root, for accounts of its own"), .serialized)
struct PAMModuleTests {
    private static let handle = String(repeating: "ab", count: 32)

    private static func hexadecimal(_ text: String) -> String {
        text.utf8.map { String($0, radix: 16) }.joined()
    }

    /// A service with the PIN 246824 that knows no keyring.
    @Sendable private static func plain(_ line: String) -> [FakeSignInService.Step] {
        if line.hasPrefix("auth ") { return [.answer("ask pin finger")] }
        return switch line {
        case "pin 246824": [.answer("yes"), .close]
        case "finger": [.answer("touch"), .answer("yes"), .close]
        default: [.answer("no 9"), .close]
        }
    }

    @Test func `the right PIN signs in with one prompt`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.signIn(typing: "246824")
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(outcome.text.contains("PIN or password; Enter for the finger: "))
        #expect(service.lines == ["auth 6101 6c6162 one -", "pin 246824"])
        #expect(!scene.isOpened)
    }

    @Test func `after a wrong PIN the password signs in`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.signIn(typing: "111111", PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        // One message with the reason: sddm 0.19 loses a prompt that follows another message at once.
        #expect(outcome.text.contains("Password (wrong PIN, 9 left): "), "\(outcome.text)")
        let refused = try await scene.signIn(typing: "111111", "nothing")
        #expect(!refused.isSuccess)
        // A wrong PIN is not tried as a password.
        #expect(service.lines.filter { $0.hasPrefix("pin") } == ["pin 111111", "pin 111111"])
    }

    @Test func `a password at the prompt uses no attempt and needs no second prompt`()
        async throws
    {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.signIn(typing: PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        let short = try await scene.signIn(typing: "12345", "nothing")
        #expect(!short.isSuccess)
        let long = try await scene.signIn(typing: "12345678901234567", "nothing")
        #expect(!long.isSuccess)
        #expect(!service.lines.contains { $0.hasPrefix("pin") }, "\(service.lines)")
    }

    @Test func `a password of digits costs an attempt and signs in at the next prompt`()
        async throws
    {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.signIn(
            as: "digits", typing: PAMScene.numericPassword, PAMScene.numericPassword)
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(service.lines.contains("pin 246802"))
    }

    @Test func `an empty answer starts the finger, and then the password`() async throws {
        let scene = try PAMScene()
        do {
            let service = try FakeSignInService(scene, Self.plain)
            let outcome = try await scene.signIn(typing: "")
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(outcome.text.contains("Place your finger on the reader."))
            #expect(service.lines.last == "finger")
        }
        for end in ["no", "none"] {
            let service = try FakeSignInService(scene) { line in
                line == "finger" ? [.answer("touch"), .answer(end)] : [.answer("ask finger")]
            }
            let outcome = try await scene.signIn(typing: "", PAMScene.password)
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(service.lines.count(where: { $0 == "finger" }) == 1)
            #expect(outcome.text.contains("Password (finger not recognized): ") == (end == "no"))
        }
    }

    /// A greeter prompts for as long as nobody is there.
    @Test func `a prompt that lasts longer than the service's connection asks it again`()
        async throws
    {
        let scene = try PAMScene()
        let isFirst = Mutex(true)
        let service = try FakeSignInService(scene) { line in
            let ends = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            return ends ? [.answer("ask pin"), .close] : Self.plain(line)
        }
        let typing = scene.directory.path(of: "typing")
        async let outcome = scene.run([
            "bash", "-c",
            """
            { until [ -e /run/latchkey/typing ]; do sleep 0.05; done; echo 246824; } |
                pamtester one lab authenticate
            """,
        ])
        #expect(await poll { service.ended == 1 })
        #expect(FileManager.default.createFile(atPath: typing, contents: nil))
        let (isSuccess, text) = try await (outcome.isSuccess, outcome.text)
        #expect(isSuccess, "\(text)")
        #expect(text.components(separatedBy: "PIN or password").count == 2, "\(text)")
        let request = "auth 6101 6c6162 one -"
        #expect(service.lines == [request, request, "pin 246824"])
    }

    @Test func `the options limit the proofs`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let finger = try await scene.signIn("finger")
        #expect(finger.isSuccess, "\(finger.text)")
        #expect(!finger.text.contains("PIN"), "no prompt: \(finger.text)")
        let pin = try await scene.signIn("pin", typing: "", PAMScene.password)
        #expect(pin.isSuccess, "\(pin.text)")
        #expect(pin.text.contains("PIN or password: "))
        #expect(service.lines.count(where: { $0 == "finger" }) == 1)
    }

    /// No test asserts a time: that the password prompt comes at all is the end of the limit.
    @Test(arguments: ["absent", "closed", "hanging", "endless", "unknown", "binary", "none"])
    func `with a broken service the password signs in at the first prompt`(_ fault: String)
        async throws
    {
        let scene = try PAMScene()
        let steps: [FakeSignInService.Step] =
            switch fault {
            case "closed": [.close]
            case "hanging": [.hang]
            case "endless": [.raw(String(repeating: "a", count: 5000)), .hang]
            case "unknown": [.answer("ask pin twice")]
            case "binary": [.raw("ask pin\u{7}\n")]
            default: [.answer("none")]
            }
        let service = fault == "absent" ? nil : try FakeSignInService(scene) { _ in steps }
        let outcome = try await scene.signIn(typing: PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(!outcome.text.contains("PIN"), "\(outcome.text)")
        // The user waits once for a service that does not answer.
        #expect(service.map(\.lines.count) ?? 0 == (["absent": 0, "hanging": 1][fault] ?? 2))
    }

    /// With the time limits of these tests, another wait would not end within the program's limit.
    @Test func `a service that hangs after its first answers costs no further wait`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth") { return [.answer("ask pin")] }
            return line.hasPrefix("pin") ? [.hang] : [.answer("wait gnome"), .hang]
        }
        let number = try await scene.signIn(
            as: "digits", typing: PAMScene.numericPassword, PAMScene.numericPassword)
        #expect(number.isSuccess, "\(number.text)")
        #expect(!service.lines.contains { $0.hasPrefix("learned") }, "it was late before")
        let outcome = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(service.lines.contains { $0.hasPrefix("learned") })
    }

    @Test func `all first answers have one time limit together`() async throws {
        let scene = try PAMScene()
        let secret = String(repeating: "c7", count: 32)
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth 6102") { return [.answer("none"), .close] }
            if line.hasPrefix("auth") { return [.pause(11_500), .answer("none"), .close] }
            if line.hasPrefix("learned 6102") {
                return [.answer("wait gnome"), .answer("secret gnome aabb"), .close]
            }
            return [
                .pause(11_500), .answer("wait gnome"), .answer("secret gnome \(secret)"), .close,
            ]
        }
        let slow = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
        #expect(slow.isSuccess, "\(slow.text)")
        // The helper of another sign-in is the only one.
        let other = try await scene.signIn(
            as: "digits", typing: PAMScene.numericPassword, then: ["open_session"])
        #expect(other.isSuccess, "\(other.text)")
        #expect(try await scene.opened().contains("aabb"))
        #expect(!scene.isOpened)
        withExtendedLifetime(service) {}
    }

    @Test func `a text that pam_unix refused is reported as one that is not checked`() async throws
    {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { _ in [.answer("none"), .close] }
        let outcome = try await scene.signIn("factor", typing: "nothing")
        #expect(outcome.isSuccess, "\(outcome.text)")
        let hex = Self.hexadecimal("nothing")
        #expect(service.lines.last == "learned 6101 6c6162 unchecked \(hex)")
        // Another real user: unix_chkpwd checks only its own password.
        let other = try await scene.run(
            ["setpriv", "--ruid=1", "pamtester", "factor", "lab", "authenticate"],
            input: [PAMScene.password])
        #expect(other.isSuccess, "\(other.text)")
        let right = Self.hexadecimal(PAMScene.password)
        #expect(service.lines.last == "learned 6101 6c6162 checked \(right)")
    }

    /// As with a high cost of yescrypt. The check takes longer than the time for the first answers.
    @Test func `a slow check of the password leaves the time for the answer`() async throws {
        let scene = try PAMScene()
        let secret = String(repeating: "e9", count: 32)
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth") { return [.answer("none"), .close] }
            return [.answer("wait gnome"), .answer("secret gnome \(secret)"), .close]
        }
        let script = """
            cp /usr/sbin/unix_chkpwd /run/unix_chkpwd
            printf '#!/bin/bash\nsleep 22; exec /run/unix_chkpwd "$@"\n' > /run/slow; chmod 755 /run/slow
            mount --bind /run/slow /usr/sbin/unix_chkpwd
            exec pamtester one lab authenticate open_session
            """
        let outcome = try await scene.run(["bash", "-c", script], input: [PAMScene.password])
        #expect(outcome.isSuccess, "\(outcome.text)")
        let hex = Self.hexadecimal(PAMScene.password)
        #expect(service.lines.last == "learned 6101 6c6162 checked \(hex)")
        #expect(try await scene.opened().contains(secret))
    }

    @Test func `after a module that asked for the password there is no further prompt`()
        async throws
    {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.signIn("asked", typing: PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(!outcome.text.contains("PIN"), "\(outcome.text)")
        #expect(!service.lines.contains { $0.hasPrefix("auth") })
    }

    @Test(arguments: [
        [FakeSignInService.Step.close], [.answer("locked")], [.answer("none")], [.raw("yes")],
    ])
    func `without a yes the PIN does not sign in`(_ steps: [FakeSignInService.Step]) async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { line in
            line.hasPrefix("auth") ? [.answer("ask pin")] : steps + [.close]
        }
        let refused = try await scene.signIn(typing: "246824", "nothing")
        #expect(!refused.isSuccess)
        let outcome = try await scene.signIn(typing: "246824", PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        withExtendedLifetime(service) {}
    }

    @Test func `a missing module leaves the password`() async throws {
        let scene = try PAMScene()
        let outcome = try await scene.signIn("missing", typing: PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
    }

    @Test func `a socket of another user is asked nothing`() async throws {
        let scene = try PAMScene()
        let listener = try RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            [
                "-c",
                """
                import os, socket, sys
                s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666)
                os.setgroups([]); os.setgid(1); os.setuid(1)
                s.listen(4); print("ready", flush=True)
                c, _ = s.accept(); print("asked", c.recv(100), flush=True)
                """, scene.socket,
            ])
        _ = await listener.output { $0.contains("ready") }
        let outcome = try await scene.signIn(typing: PAMScene.password)
        #expect(outcome.isSuccess, "\(outcome.text)")
        await listener.stop(SIGKILL)
        #expect(await !listener.remainder().output.contains("auth"))
    }

    @Test func `root and remote requests are not asked`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let remote = try await scene.signIn(
            typing: PAMScene.password, remoteHost: "192.0.2.1", then: ["open_session"])
        #expect(remote.isSuccess, "\(remote.text)")
        #expect(try await !scene.signIn(as: "root", typing: "246824").isSuccess)
        #expect(service.lines == [])
        // With pam_rhost in sudoers, sudo states the name of this machine; xsecurelock states the other.
        for host in [ProcessInfo.processInfo.hostName, "localhost"] {
            let local = try await scene.signIn(typing: "246824", remoteHost: host)
            #expect(local.isSuccess, "\(host): \(local.text)")
        }
    }

    @Test func `a user that faillock has locked is refused also with the right PIN`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let script = """
            for n in 1 2; do printf '111111\\nnothing\\n' | pamtester faillock lab authenticate; done
            printf '246824\\n' | pamtester faillock lab authenticate && echo "signed in"
            faillock --user lab --reset
            printf '246824\\n' | pamtester faillock lab authenticate && echo "after the reset"
            """
        let outcome = try await scene.run(["bash", "-c", script])
        #expect(!outcome.text.contains("signed in"), "\(outcome.text)")
        #expect(outcome.text.contains("after the reset"), "\(outcome.text)")
        withExtendedLifetime(service) {}
    }

    /// sudo sets PAM_SILENT.
    @Test(.requires(program: "sudo"), .requires(program: "script"))
    func `sudo on a terminal asks for the PIN`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene, Self.plain)
        let outcome = try await scene.run(
            [
                "setpriv", "--reuid=6101", "--regid=6101", "--clear-groups", "script", "--quiet",
                "--return", "--command", "sudo -k id -u", "/dev/null",
            ], input: ["246824"])
        #expect(outcome.text.contains("PIN or password"), "\(outcome.text)")
        #expect(service.lines.last == "pin 246824")
        #expect(outcome.text.split(whereSeparator: \.isNewline).last == "0", "\(outcome.text)")
    }

    // MARK: The change of a password

    @Test(
        arguments: [
            ([FakeSignInService.Step.answer("wait"), .answer("done")], false),
            ([.answer("wait"), .answer("none")], false),
            ([.answer("wait"), .answer("failed")], true),
            ([.answer("wait"), .answer("error store")], true),
            ([.answer("wait")], true), ([], true),
        ] as [([FakeSignInService.Step], Bool)])
    func `a changed password is reported, and the user learns if the keyring did not follow`(
        _ steps: [FakeSignInService.Step], _ isLost: Bool
    ) async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { _ in steps + [.close] }
        // Also at a forced change over ssh.
        let outcome = try await scene.changePassword(
            to: "quite-another-7", remoteHost: "192.0.2.1")
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(outcome.text.contains("could not follow") == isLost, "\(outcome.text)")
        let (old, new) = (Self.hexadecimal(PAMScene.password), Self.hexadecimal("quite-another-7"))
        #expect(service.lines == ["changed 6101 6c6162 \(old) \(new)"])
    }

    @Test func `without a service a changed password needs no message`() async throws {
        let outcome = try await PAMScene().changePassword(to: "quite-another-7")
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(!outcome.text.contains("keyring"), "\(outcome.text)")
    }

    // MARK: The session part

    @Test func `the session part gives the secret to a helper with the user's ids`() async throws {
        let scene = try PAMScene()
        let secret = String(repeating: "c7", count: 32)
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth") { return [.answer("ask pin")] }
            if line.hasPrefix("secret") { return [.answer("secret gnome \(secret)"), .close] }
            return [.answer("yes \(Self.handle) gnome"), .close]
        }
        let outcome = try await scene.run(
            [
                "bash", "-c",
                "umask 077; trap '' USR1; exec pamtester one lab authenticate open_session 9</etc/shadow",
            ],
            input: ["246824"])
        #expect(outcome.isSuccess, "\(outcome.text)")
        let opened = try await scene.opened()
        #expect(
            opened == [
                "gnome", "6101", "6101", "/home/lab /run/user/6101", secret, "0", "/", "0022", "0",
            ])
        #expect(service.lines.last == "secret 6101 6c6162 \(Self.handle)")
    }

    @Test(arguments: [
        "none", "secret kwallet aa", "secret gnome", "secret gnome ", "secret gnome zz",
        "secret gnome aab", "secret gnome " + String(repeating: "aa", count: 57),
    ])
    func `a session without a valid secret starts no helper, and opens`(_ answer: String)
        async throws
    {
        let scene = try PAMScene()
        let good = String(repeating: "cd", count: 32)
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth") { return [.answer("ask pin")] }
            if line.contains(good) { return [.answer("secret gnome aabb"), .close] }
            if line.hasPrefix("secret") { return [.answer(answer), .close] }
            return [.answer("yes \(line == "pin 246824" ? Self.handle : good) gnome"), .close]
        }
        let outcome = try await scene.signIn(typing: "246824", then: ["open_session"])
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(await poll { service.lines.last?.hasPrefix("secret") == true })
        // The helper of a second, valid session is the only one.
        let second = try await scene.signIn(typing: "135713", then: ["open_session"])
        #expect(second.isSuccess, "\(second.text)")
        #expect(try await scene.opened().contains("aabb"))
        #expect(!scene.isOpened)
    }

    @Test(arguments: ["short gnome", "\(Self.handle) other", Self.handle, "\(Self.handle)aa gnome"])
    func `a handle in another form is not kept, and the yes counts`(_ text: String) async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { line in
            line.hasPrefix("auth") ? [.answer("ask pin")] : [.answer("yes \(text)"), .close]
        }
        let outcome = try await scene.signIn(typing: "246824", then: ["open_session"])
        #expect(outcome.isSuccess, "\(outcome.text)")
        #expect(!service.lines.contains { $0.hasPrefix("secret") })
    }

    @Test func `an accepted password is reported, and opens the keyring`() async throws {
        let scene = try PAMScene()
        let service = try FakeSignInService(scene) { line in
            if line.hasPrefix("auth") { return [.answer("none"), .close] }
            let secret = String(repeating: "d8", count: 56)
            return [.answer("wait kwallet"), .answer("secret kwallet \(secret)"), .close]
        }
        let refused = try await scene.signIn(typing: "nothing")
        #expect(!refused.isSuccess)
        #expect(!service.lines.contains { $0.hasPrefix("learned") }, "not a refused password")
        let outcome = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
        #expect(outcome.isSuccess, "\(outcome.text)")
        let hex = Self.hexadecimal(PAMScene.password)
        #expect(service.lines.contains("learned 6101 6c6162 checked \(hex)"))
        let opened = try await scene.opened()
        #expect(opened.first == "kwallet")
        #expect(opened.dropFirst(4).first == String(repeating: "d8", count: 56))
    }
}
