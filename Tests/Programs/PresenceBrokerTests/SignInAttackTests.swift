import Foundation
import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Attacks on the sign-in by other accounts and at other times than the prompt's, with the service, a
/// TPM, and PAM.
@Suite(
    .requires(program: "cc"), .requires(program: "pamtester"), .requires(program: "unshare"),
    .requires(program: "dbus-daemon"), .requires(program: "gdbus"), .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, for accounts of its own"), .softwareTPM, .serialized)
struct SignInAttackTests {
    private static let secret = String(repeating: "5a", count: 32)
    private static let password = hexadecimal(PAMScene.password)
    private static let opened = ["wait gnome", "secret gnome \(secret)"]
    private static let proof = "pin \(SignInScene.pin)"

    private static func hexadecimal(_ text: String) -> String {
        text.utf8.map { String($0, radix: 16) }.joined()
    }

    /// A scene whose user has a record.
    private static func withRecord(_ body: (SignInScene) async throws -> Void) async throws {
        try await SignInScene.with { scene in
            try await scene.check(
                "enrol 1 gnome \(secret) \(password) \(SignInScene.pin)", answers: ["done 1"])
            try await body(scene)
        }
    }

    @Test func `a new account with the number of a deleted one inherits nothing`() async throws {
        try await Self.withRecord { scene in
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            let handle = try await scene.ask("auth 1 test -", Self.proof).last?
                .split(separator: " ").dropFirst().first
            try await scene.check(
                "secret 1 \(try #require(handle))", named: "carol", answers: ["none"])
            try await scene.check(
                "learned 1 \(Self.password)", named: "carol", answers: ["none"])
            try await scene.check(
                "changed 1 \(Self.password) 61", named: "carol", answers: ["wait", "none"])
            try await scene.check("auth 1 test -", named: "carol", answers: ["none"])
            try await scene.check(
                "auth 1 test -", answers: ["ask pin"], comment: "the account has its number")
        }
    }

    /// su and a user's own program say what they like.
    @Test func `only a request that may ask ends the permission of an account that is gone`()
        async throws
    {
        try await SignInScene.with { scene in
            try await scene.allow(named: "gone")
            try await scene.check("auth 1 test -", as: SignInScene.user, answers: ["none"])
            try await scene.check("auth 1 test -", real: 2, answers: ["none"])
            try await scene.check("auth 1 test -", named: "gone", answers: ["ask pin"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("auth 1 test -", named: "gone", answers: ["none"])
        }
    }

    @Test func `root ends the sign-in of a user, and the password still opens the keyring`()
        async throws
    {
        try await Self.withRecord { scene in
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
            try await scene.check("remove 1 0 -", answers: ["done 0"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["none"], comment: "not proven again")
            try await scene.check(
                "renew 1 \(Self.password) \(SignInScene.pin)", as: SignInScene.user,
                answers: ["done 4"])
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// The copy under the earlier password opens with nothing that anybody knows.
    @Test func `after root set a password and ended the sign-in, the PIN still opens the secret`()
        async throws
    {
        try await Self.withRecord { scene in
            let new = Self.hexadecimal("another password")
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            try await scene.check("remove 1 0 -", answers: ["done 0"])
            try await scene.check(
                "status 1", answers: ["status pending gnome 2 absent fresh set unproven"])
            try await scene.check("learned 1 \(new)", answers: ["wait gnome", "none"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "renew 1 \(new) \(SignInScene.pin)", as: SignInScene.user, answers: ["done 4"])
            try await scene.check("release 1 \(new)", answers: ["secret gnome \(Self.secret)"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("learned 1 \(new)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// A program of the user set a first PIN and enrolled with a password of its own.
    @Test func `root deletes a record that the user's password does not open`() async throws {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            func enrol(_ password: String) -> String {
                "enrol 1 gnome \(Self.secret) \(password) \(SignInScene.pin)"
            }
            try await scene.check(enrol("61"), as: user, answers: ["done 1"])
            try await scene.check(enrol(Self.password), as: user, answers: ["error exists"])
            try await scene.check("remove 1 1 -", as: user, answers: ["error password"])
            try await scene.check("remove 1 2 -", answers: ["error generation"])
            try await scene.check("remove 1 1 -", answers: ["done 0"])
            try await scene.check("remove 1 1 -", answers: ["error absent"])
            try await scene.check(enrol(Self.password), as: user, answers: ["done 1"])
        }
    }

    @Test func `the record of an account that is gone blocks nobody after root ends it`()
        async throws
    {
        try await SignInScene.with { scene in
            let records = SignInRecordStore(
                directory: scene.broker.stateDirectory.path(of: "login"))
            for user in [SignInScene.user, 6999] {
                var record = SignInRecord(user: user, name: "gone", kind: .gnome)
                record.sealed = [1]
                _ = try records.write(record)
            }
            let user = SignInScene.user
            let enrol = "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)"
            try await scene.check(
                "status 1", as: user, answers: ["status none - 0 - - set unproven"])
            try await scene.check(enrol, as: user, answers: ["error account"])
            try await scene.check("release 1 61", as: user, answers: ["error absent"])
            try await scene.check("remove 6999 0 -", answers: ["done 0"])
            #expect(try records.read(user: 6999) == nil)
            try await scene.check("remove 1 0 -", answers: ["done 0"])
            try await scene.check(enrol, as: user, answers: ["done 1"])
        }
    }

    /// For example su, in a terminal of the named user.
    @Test func `a setuid program that another user started may not ask`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            try await scene.check("auth 1 test -", real: SignInScene.user, answers: ["ask pin"])
            try await scene.check("auth 1 test -", real: 2, answers: ["none"])
        }
    }

    /// In the terminal of the user whose password it asks for.
    @Test(.requires(program: "sudo"), .requires(program: "script"))
    func `sudo of another user with targetpw may not ask`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            let script = """
                printf 'Defaults:bin targetpw\\nbin ALL=(ALL) ALL\\n' >> /etc/sudoers
                exec setpriv --reuid=2 --regid=2 --clear-groups \\
                    script --quiet --return --command "sudo -k -u \(SignInScene.name) id -u" /dev/null
                """
            let outcome = try await scene.pam.run(
                ["bash", "-c", script], input: [PAMScene.password])
            #expect(!outcome.text.contains("PIN"), "\(outcome.text)")
            #expect(
                outcome.text.split(whereSeparator: \.isNewline).last == "1", "\(outcome.text)")
        }
    }

    /// Its ID could belong to a process of another session. It stays a zombie here, so that its ID does
    /// not.
    @Test func `after the end of the program that asked, its connection is worth nothing`()
        async throws
    {
        try await SignInScene.with { scene in
            try await scene.allow()
            let inner = """
                import os, socket, sys
                s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
                asking = os.getpid()
                s.sendall(b"auth 1 6461656d6f6e test -\\n"); print(s.recv(100), flush=True)
                if os.fork(): os._exit(0)
                while os.getppid() == asking: os.sched_yield()
                try: s.sendall(b"pin \(SignInScene.pin)\\n"); print(s.recv(100), s.recv(100))
                except ConnectionError: print("closed")
                """
            let outer =
                "import subprocess, sys; print(subprocess.run(sys.argv[1:], stdout=-1).stdout.decode())"
            let result = try await HelperProgram.run(
                "/usr/bin/python3",
                ["-c", outer, "/usr/bin/python3", "-c", inner, scene.pam.socket])
            let lines = result.text.split(separator: "\n")
            #expect(lines.first == "b'ask pin\\n'", "\(result.text)")
            #expect(["b'' b''", "closed"].contains(lines.last), "\(result.text)")
        }
    }

    @Test(arguments: [
        ("LockedHint", "true"), ("Remote", "true"), ("Active", "false"), ("State", "'closing'"),
    ])
    func `a proof counts only if its place may still ask`(_ property: String, _ value: String)
        async throws
    {
        try await SignInScene.with { scene in
            try await scene.allow()
            let late = scene.setting(property, to: value)
            try await scene.check(
                "auth 1 test -", late, Self.proof, real: SignInScene.user,
                answers: ["ask pin", "none"])
        }
    }

    /// A second factor after pam_unix can accept a user whose text pam_unix refused.
    @Test func `a text that is not the password for certain proves nothing`() async throws {
        try await Self.withRecord { scene in
            let name = Self.hexadecimal(SignInScene.name)
            try await scene.check(
                "learned 1 \(name) unchecked \(Self.hexadecimal("typed wrongly"))",
                answers: ["wait gnome", "none"])
            try await scene.check(
                "status 1", answers: ["status pending gnome 1 sealed fresh set unproven"])
            try await scene.check(
                "learned 1 \(name) unchecked \(Self.password)", answers: Self.opened,
                comment: "what opens the keyring opens it")
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("learned 1 \(Self.password)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// Both run scrypt, and then change the permission.
    @Test func `a password that arrives while the record is removed allows nothing`() async throws {
        try await Self.withRecord { scene in
            let answers = try await Self.atOnce(
                scene, ["remove 1 1 \(Self.password)", "learned 1 \(Self.password)"])
            #expect(answers.contains { $0 == "0 done 0" }, "\(answers)")
            try await scene.check(
                "status 1", answers: ["status none - 0 - - set unproven"])
            try await scene.check("auth 1 test -", answers: ["none"])
        }
    }

    @Test func `of other users' scrypt one request waits, and nothing waits for it`() async throws {
        try await Self.withRecord { scene in
            let wrong = Self.hexadecimal("wrong")
            // A second copy: a wrong password then costs two computations.
            try await scene.check(
                "renew 1 \(Self.hexadecimal("new")) \(SignInScene.pin)", answers: ["done 2"])
            let answers = try await Self.atOnce(
                scene,
                ["release 1 \(wrong)", "release 1 \(wrong)", "release 1 \(wrong)", "status 1"],
                as: SignInScene.user)
            #expect(answers.count { $0.hasSuffix("error busy") } == 1, "\(answers)")
            let status = answers.firstIndex { $0.hasPrefix("3 status") }
            let first = answers.firstIndex { $0.hasSuffix("error password") }
            #expect(try #require(status) < #require(first), "\(answers)")
        }
    }

    @Test func `setuid programs count for the user who started them`() async throws {
        try await SignInScene.with { scene in
            let script = """
                import socket, sys
                all = []
                for n in range(6):
                    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)
                print(all[5].recv(1))
                all[0].setblocking(False)
                try: print(all[0].recv(1))
                except BlockingIOError: print("open")
                """
            let result = try await HelperProgram.run(
                "setpriv", ["--ruid=2", "/usr/bin/python3", "-c", script, scene.pam.socket])
            #expect(result.text.split(separator: "\n") == ["b''", "open"], "\(result.text)")
        }
    }

    /// Sends each line on a connection of its own, one after the other, without waiting.
    ///
    /// - Returns: The answers in the order of their arrival, each after the number of its line.
    private static func atOnce(
        _ scene: SignInScene, _ lines: [String], as user: UInt32? = nil
    ) async throws -> [String] {
        let script = """
            import selectors, socket, sys
            ready = selectors.DefaultSelector()
            for n, line in enumerate(sys.argv[2:]):
                s = socket.socket(socket.AF_UNIX); s.settimeout(300); s.connect(sys.argv[1])
                s.sendall(line.encode() + b"\\n")
                ready.register(s, selectors.EVENT_READ, (n, s.makefile("rb", buffering=0)))
            while ready.get_map():
                for key, _ in ready.select():
                    n, f = key.data
                    line = f.readline()
                    if line: print(n, line.decode().rstrip(), flush=True)
                    else: ready.unregister(key.fileobj)
            """
        let drop =
            user.map { ["setpriv", "--reuid=\($0)", "--regid=\($0)", "--clear-groups"] } ?? []
        let result = try await HelperProgram.run(
            "env",
            drop + ["/usr/bin/python3", "-c", script, scene.pam.socket]
                + lines.map { SignInScene.complete($0) })
        return result.text.split(separator: "\n").map(String.init)
    }
}
