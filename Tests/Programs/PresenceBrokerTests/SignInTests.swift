import Foundation
import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Sign-in with the service, a TPM, and PAM.
@Suite(
    .requires(program: "cc"), .requires(program: "pamtester"), .requires(program: "unshare"),
    .requires(program: "dbus-daemon"), .requires(program: "gdbus"), .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, for accounts of its own"), .softwareTPM, .serialized)
struct SignInTests {
    private static let secret = String(repeating: "5a", count: 32)
    private static let password = hexadecimal(PAMScene.password)
    /// The answers to `learned` with a password that opens the record.
    private static let opened = ["wait gnome", "secret gnome \(secret)"]

    private static func hexadecimal(_ text: String) -> String {
        text.utf8.map { String($0, radix: 16) }.joined()
    }

    @Test func `a PIN signs in after it was allowed, and wrong ones are counted`() async throws {
        try await SignInScene.with { scene in
            let before = try await scene.signIn(typing: PAMScene.password)
            #expect(before.isSuccess && !before.text.contains("PIN"), "\(before.text)")
            try await scene.allow()
            let right = try await scene.signIn(typing: SignInScene.pin, then: ["open_session"])
            #expect(right.isSuccess, "\(right.text)")
            #expect(right.text.contains("PIN or password: "), "no reader: \(right.text)")
            let wrong = try await scene.signIn(typing: "000000", PAMScene.password)
            #expect(wrong.isSuccess, "\(wrong.text)")
            #expect(wrong.text.contains("(wrong PIN, 9 left)"), "\(wrong.text)")
            for left in (1..<9).reversed() {
                try await scene.check(
                    "auth 1 test -", "pin 000000", answers: ["ask pin", "no \(left)"])
            }
            let lines = try await scene.ask("auth 1 test -", "pin 000000")
            #expect(lines == ["ask pin", "locked"])
            let locked = try await scene.signIn(typing: SignInScene.pin, PAMScene.password)
            #expect(locked.isSuccess && locked.text.contains("locked"), "\(locked.text)")
        }
    }

    /// fprintd starts for the first request, and can take longer than the prompt may wait.
    @Test func `a finger is offered beside the PIN while fprintd does not answer`() async throws {
        // Two first answers of the service, 3.5 s each, take less than the module's 20.9 s.
        try await SignInScene.with(patience: 5) { scene in
            try await scene.allow()
            let fprintd = try await scene.silentFprintd()
            try await scene.check("auth 1 test -", answers: ["ask pin finger"])
            let outcome = try await scene.signIn(typing: SignInScene.pin)
            #expect(outcome.isSuccess, "\(outcome.text)")
            await fprintd.stop(SIGKILL)
        }
    }

    @Test func `a remote, locked, inactive or other session is not asked`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            try await scene.check("auth 1 test -", answers: ["ask pin"])
            for (property, bad, good) in [
                ("Remote", "true", "false"), ("Active", "false", "true"),
                ("LockedHint", "true", "false"), ("Class", "'greeter'", "'user'"),
                ("State", "'closing'", "'active'"),
            ] {
                try await scene.set(property, to: bad)
                try await scene.check(
                    "auth 1 test -", real: SignInScene.user, answers: ["none"],
                    comment: "\(property)")
                try await scene.set(property, to: good)
            }
            try await scene.check("auth 1 test -", answers: ["ask pin"])
            // A locker of the user runs while the session is locked.
            try await scene.set("LockedHint", to: "true")
            try await scene.check(
                "auth 1 test -", "pin \(SignInScene.pin)", as: SignInScene.user,
                answers: ["ask pin", "yes"])
        }
    }

    @Test func `another user, and a client that breaks the rules, get nothing`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            for line in [
                "auth 1 test -", "status 1", "release 1 61", "remove 1 1 61",
                "auth 0 test -", "secret 2 \(Self.secret)", "learned 2 61", "changed 2 61 62",
            ] {
                try await scene.check(line, as: 2, answers: [], comment: "\(line)")
            }
            for line in ["auth 0 test -", "allow 1", "nothing", "auth 1", ""] {
                try await scene.check(line, answers: [], comment: "\(line)")
            }
            let early = try await scene.ask(
                "auth 1 test -\npin \(SignInScene.pin)", as: SignInScene.user)
            #expect(early == [], "the proof came before the prompt")
            try await scene.check(
                "auth 1 test -", "finger", as: SignInScene.user, answers: ["ask pin"])
            try await scene.check(
                "auth 1 test -", "pin 12a4", as: SignInScene.user, answers: ["ask pin"])
            // A user's requests have limits that are not root's.
            let answers = try await scene.repeated(
                "auth 1 test -", times: 40, as: SignInScene.user)
            #expect(answers.count == 40 && answers.first == "ask pin", "\(answers)")
            #expect(answers.last == "", "\(answers)")
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// Every user can start su and name another user.
    @Test func `refused requests of root do not use up the user's`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            try await scene.set("Remote", to: "true")
            let refused = try await scene.repeated("auth 1 test -", times: 40)
            #expect(refused == Array(repeating: "none", count: 40))
            try await scene.set("Remote", to: "false")
            try await scene.check("auth 1 test -", answers: ["ask pin"])
            let answers = try await scene.repeated("auth 1 test -", times: 40)
            #expect(
                answers.count == 40 && answers.first == "ask pin" && answers.last == "none",
                "those that may ask are limited: \(answers)")
            // A changed password is followed all the same.
            try await scene.check("changed 1 61 62", answers: ["wait", "none"])
        }
    }

    @Test func `connections that send nothing do not keep root out`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            let flood = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "setpriv", "--reuid=2", "--regid=2", "--clear-groups", "/usr/bin/python3", "-c",
                    """
                    import socket, sys
                    all = []
                    for n in range(200):
                        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)
                    print("ready", flush=True); sys.stdin.read()
                    import time; time.sleep(600)
                    """, scene.pam.socket,
                ])
            _ = await flood.output { $0.contains("ready") }
            let outcome = try await scene.signIn(typing: SignInScene.pin)
            #expect(outcome.isSuccess, "\(outcome.text)")
            await flood.stop(SIGKILL)
            // A user can start sudo many times: root's connections about one user are limited.
            let prompts = try RunningProgram(
                URL(filePath: "/usr/bin/python3"),
                [
                    "-c",
                    """
                    import socket, sys, time
                    all = []
                    for n in range(6):
                        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)
                        s.send(b"auth 1 6461656d6f6e test -\\n"); print(s.recv(100), flush=True)
                    print("ready", flush=True); time.sleep(600)
                    """, scene.pam.socket,
                ])
            let answers = await prompts.output { $0.contains("ready") }
            #expect(answers.components(separatedBy: "ask pin").count == 5, "\(answers)")
            try await scene.check(
                "auth 2 test -", answers: ["none"], comment: "another user is answered")
            await prompts.stop(SIGKILL)
        }
    }

    /// A user with subordinate user IDs (subuid(5)) has thousands of them.
    @Test func `connections of users without a name do not keep other users out`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            let flood = try RunningProgram(
                URL(filePath: "/usr/bin/python3"),
                [
                    "-c",
                    """
                    import os, socket, sys, time
                    alive, parent = os.pipe(); ready, done = os.pipe()
                    for user in range(200001, 200004):
                        if os.fork(): continue
                        os.close(parent); os.setgroups([])
                        os.setresgid(user, user, user); os.setresuid(user, user, user)
                        all = []
                        for n in range(4):
                            s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)
                        os.write(done, b"x"); os.read(alive, 1); os._exit(0)
                    for n in range(3): os.read(ready, 1)
                    print("ready", flush=True); time.sleep(600)
                    """, scene.pam.socket,
                ])
            _ = await flood.output { $0.contains("ready") }
            try await scene.check("auth 1 test -", as: SignInScene.user, answers: ["ask pin"])
            await flood.stop(SIGKILL)
        }
    }

    @Test func `a keyring opens after the password, which proves the record, then after the PIN`()
        async throws
    {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            let enrol = "enrol 1 gnome \(Self.secret) \(Self.password)"
            try await scene.check("\(enrol) 000000", as: user, answers: ["no 9"])
            try await scene.check(
                "status 1", as: user, answers: ["status none - 0 - - set unproven"])
            try await scene.check("\(enrol) \(SignInScene.pin)", as: user, answers: ["done 1"])
            try await scene.check(
                "\(enrol) \(SignInScene.pin)", as: user, answers: ["error exists"])
            try await scene.check("activate 1 7", as: user, answers: ["error generation"])
            try await scene.check("activate 1 1", as: user, answers: ["done 2"])
            try await scene.check(
                "status 1", as: user, answers: ["status active gnome 2 sealed fresh set unproven"])
            // The record alone does not let the PIN sign in.
            try await scene.check("auth 1 test -", answers: ["none"])
            let password = try await scene.signIn(
                typing: PAMScene.password, then: ["open_session"])
            #expect(password.isSuccess, "\(password.text)")
            #expect(try await scene.pam.opened().contains(Self.secret))
            try await scene.check(
                "status 1", as: user, answers: ["status active gnome 2 sealed fresh set allowed"])
            let pin = try await scene.signIn(typing: SignInScene.pin, then: ["open_session"])
            #expect(pin.isSuccess, "\(pin.text)")
            #expect(try await scene.pam.opened().contains(Self.secret))
            // A program of the user gets the yes without a handle.
            try await scene.check(
                "auth 1 test -", "pin \(SignInScene.pin)", as: user, answers: ["ask pin", "yes"])
            try await scene.check(
                "release 1 \(Self.hexadecimal("other"))", as: user, answers: ["error password"])
            try await scene.check(
                "release 1 \(Self.password)", as: user, answers: ["secret gnome \(Self.secret)"])
        }
    }

    @Test func `without a keyring the password proves the record, and nothing is opened`()
        async throws
    {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            try await scene.check(
                "enrol 1 none \(Self.secret) \(Self.password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            try await scene.check("activate 1 1", as: user, answers: ["done 2"])
            try await scene.check(
                "status 1", as: user, answers: ["status active none 2 sealed fresh set unproven"])
            try await scene.check("auth 1 test -", answers: ["none"])
            let password = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
            #expect(password.isSuccess, "\(password.text)")
            try await scene.finishLearning()
            let pin = try await scene.signIn(typing: SignInScene.pin, then: ["open_session"])
            #expect(pin.isSuccess && pin.text.contains("PIN or password"), "\(pin.text)")
            try await scene.check(
                "auth 1 test -", "pin \(SignInScene.pin)", answers: ["ask pin", "yes"],
                comment: "root gets no handle")
            try await scene.check("learned 1 \(Self.password)", answers: ["wait none", "none"])
            #expect(!scene.pam.isOpened)
            // A program of the user sets its own PIN.
            try await scene.setPIN("000000")
            try await scene.check("learned 1 \(Self.password)", answers: ["wait none", "none"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "renew 1 \(Self.hexadecimal("guess")) 000000", as: user, answers: ["error password"]
            )
            try await scene.check("renew 1 \(Self.password) 000000", as: user, answers: ["done 3"])
            try await scene.check("auth 1 test -", answers: ["none"], comment: "not proven again")
            try await scene.check("learned 1 \(Self.password)", answers: ["wait none", "none"])
            try await scene.check(
                "auth 1 test -", "pin 111111", answers: ["ask pin", "no 9"])
            try await scene.check(
                "auth 1 test -", "pin 000000", answers: ["ask pin", "yes"])
            try await scene.check("remove 1 3 \(Self.password)", as: user, answers: ["done 0"])
            try await scene.check("auth 1 test -", answers: ["none"])
        }
    }

    @Test func `a record under another password than the user's proves nothing`() async throws {
        try await SignInScene.with { scene in
            let enrol = "enrol 1 gnome \(Self.secret) \(Self.hexadecimal("guess"))"
            try await scene.check(
                "\(enrol) \(SignInScene.pin)", as: SignInScene.user, answers: ["done 1"])
            let outcome = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
            #expect(outcome.isSuccess, "\(outcome.text)")
            try await scene.finishLearning()
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "status 1", as: SignInScene.user,
                answers: ["status pending gnome 2 sealed stale set unproven"])
            #expect(!scene.pam.isOpened)
        }
    }

    /// A program with access to the TPM removes the user's PIN and sets its own.
    @Test func `a new PIN is not allowed by the password, and renewed only with it`() async throws {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            try await scene.setPIN("000000")
            let learned = try await scene.ask("learned 1 \(Self.password)")
            #expect(learned == Self.opened, "the password opens the keyring")
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "status 1", as: user, answers: ["status pending gnome 1 absent fresh set unproven"])
            try await scene.check(
                "renew 1 \(Self.hexadecimal("guess")) 000000", as: user, answers: ["error password"]
            )
            try await scene.check("renew 1 \(Self.password) 000000", as: user, answers: ["done 2"])
            _ = try await scene.ask("learned 1 \(Self.password)")
            #expect(
                try await scene.ask("auth 1 test -", "pin 000000").last?.hasPrefix("yes ") == true)
        }
    }

    @Test func `a changed password opens the record, and the old one until then`() async throws {
        try await SignInScene.with { scene in
            let new = Self.hexadecimal("another password")
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)",
                as: SignInScene.user, answers: ["done 1"])
            try await scene.check(
                "changed 2 \(Self.password) \(new)", answers: ["wait", "none"],
                comment: "a user without a record")
            try await scene.check(
                "changed 1 \(Self.hexadecimal("wrong")) \(new)", answers: ["wait", "failed"])
            try await scene.check(
                "status 1", answers: ["status pending gnome 2 sealed stale set unproven"])
            try await scene.check("changed 1 \(Self.password) \(new)", answers: ["wait", "done"])
            try await scene.check(
                "release 1 \(Self.password)", answers: ["secret gnome \(Self.secret)"])
            let learned = try await scene.ask("learned 1 \(new)")
            #expect(learned == Self.opened)
            try await scene.check("release 1 \(Self.password)", answers: ["error password"])
            try await scene.check("release 1 \(new)", answers: ["secret gnome \(Self.secret)"])
        }
    }

    /// The user's program gave the PIN and the old password together, and PAM proved the change.
    @Test func `a PIN that waits for its password waits for the changed one`() async throws {
        try await SignInScene.with { scene in
            let new = Self.hexadecimal("another password")
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)",
                as: SignInScene.user, answers: ["done 1"])
            try await scene.check("changed 1 \(Self.password) \(new)", answers: ["wait", "done"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("learned 1 \(new)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// A program that knows the PIN of a record, but not the login password.
    @Test func `a copy of another password takes the seal from the user's until it is made again`()
        async throws
    {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            try await scene.check("renew 1 61 \(SignInScene.pin)", as: user, answers: ["done 2"])
            let new = Self.hexadecimal("another password")
            try await scene.check("changed 1 \(Self.password) \(new)", answers: ["wait", "done"])
            try await scene.check("learned 1 \(new)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check("release 1 61", as: user, answers: ["error password"])
            try await scene.check(
                "status 1", as: user, answers: ["status pending gnome 4 absent fresh set unproven"])
            try await scene.check(
                "renew 1 \(new) \(SignInScene.pin)", as: user, answers: ["done 5"])
            try await scene.check("learned 1 \(new)", answers: Self.opened)
            try await scene.check("auth 1 test -", answers: ["ask pin"])
        }
    }

    /// The wallet keeps its password until the user changes it in KDE's settings.
    @Test func `a changed login password keeps the key of a wallet`() async throws {
        try await SignInScene.with { scene in
            let key = String(repeating: "7e", count: 56)
            try await scene.check(
                "enrol 1 kwallet \(key) \(Self.password) \(SignInScene.pin)", answers: ["done 1"])
            let new = Self.hexadecimal("new password")
            try await scene.check("changed 1 \(Self.password) \(new)", answers: ["wait", "done"])
            let opened = ["wait kwallet", "secret kwallet \(key)"]
            try await scene.check("learned 1 \(new)", answers: opened)
            // Root changed it: the PIN adds a copy of the same key.
            let other = Self.hexadecimal("other")
            try await scene.check("learned 1 \(other)", answers: ["wait kwallet", "none"])
            try await scene.check("renew 1 \(other) \(SignInScene.pin)", answers: ["done 5"])
            try await scene.check("learned 1 \(other)", answers: opened)
        }
    }

    /// For example, root changed the password.
    @Test func `the PIN adds a copy under a new password, and a sign-in proves it`() async throws {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            let new = Self.hexadecimal("another password")
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            try await scene.check("renew 1 \(new) 000000", as: user, answers: ["no 9"])
            try await scene.check(
                "renew 1 \(Self.hexadecimal("typed wrongly")) \(SignInScene.pin)", as: user,
                answers: ["done 2"])
            // PAM has not accepted it, so the proven copy stays, also after another one.
            try await scene.check(
                "renew 1 \(new) \(SignInScene.pin)", as: user, answers: ["done 3"])
            try await scene.check(
                "release 1 \(Self.password)", as: user, answers: ["secret gnome \(Self.secret)"])
            let learned = try await scene.ask("learned 1 \(new)")
            #expect(learned == Self.opened)
            try await scene.check(
                "status 1", as: user, answers: ["status pending gnome 4 sealed fresh set allowed"])
            try await scene.check("release 1 \(Self.password)", answers: ["error password"])
            try await scene.check("release 1 \(new)", answers: ["secret gnome \(Self.secret)"])
        }
    }

    @Test(.requires(program: "tpm2_clear"))
    func `after a clear of the TPM the password opens the keyring, and nothing else signs in`()
        async throws
    {
        try await SignInScene.with { scene in
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)",
                answers: ["done 1"])
            _ = try await scene.ask("learned 1 \(Self.password)")
            try await scene.check("auth 1 test -", answers: ["ask pin"])
            try await scene.clearTPM()
            try await scene.check("auth 1 test -", answers: ["none"])
            let outcome = try await scene.signIn(typing: PAMScene.password, then: ["open_session"])
            #expect(outcome.isSuccess && !outcome.text.contains("PIN"), "\(outcome.text)")
            #expect(try await scene.pam.opened().contains(Self.secret))
            try await scene.check(
                "release 1 \(Self.password)", answers: ["secret gnome \(Self.secret)"])
            let status = try await scene.ask("status 1")
            #expect(status.first?.contains(" absent fresh unset unproven") == true, "\(status)")
            try await scene.check(
                "renew 1 \(Self.password) \(SignInScene.pin)", answers: ["error tpm"])
            try await scene.check("remove 1 1 \(Self.password)", answers: ["done 0"])
        }
    }

    @Test func `a handle is for the process that signed in`() async throws {
        try await SignInScene.with { scene in
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)",
                answers: ["done 1"])
            _ = try await scene.ask("learned 1 \(Self.password)")
            let signedIn = try await scene.ask("auth 1 test -", "pin \(SignInScene.pin)")
            let handle = try #require(signedIn.last?.split(separator: " ").dropFirst().first)
            try await scene.check(
                "secret 1 \(handle)", answers: ["none"], comment: "another process")
        }
    }

    @Test func `the record ends with the password, and with it the sign-in`() async throws {
        try await SignInScene.with { scene in
            let user = SignInScene.user
            try await scene.check(
                "enrol 1 gnome \(Self.secret) \(Self.password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            try await scene.allow()
            try await scene.check("remove 1 1 -", as: user, answers: ["error password"])
            try await scene.check(
                "remove 1 1 \(Self.hexadecimal("no"))", as: user, answers: ["error password"])
            try await scene.check(
                "remove 1 2 \(Self.password)", as: user, answers: ["error generation"])
            try await scene.check("remove 1 1 \(Self.password)", as: user, answers: ["done 0"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "renew 1 \(Self.password) \(SignInScene.pin)", as: user, answers: ["error absent"])
        }
    }

    @Test func `a service that is killed during the prompt leaves the password`() async throws {
        try await SignInScene.with { scene in
            try await scene.allow()
            let client = try RunningProgram(
                URL(filePath: "/usr/bin/python3"),
                [
                    "-c",
                    """
                    import socket, sys
                    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
                    f = s.makefile("rwb", buffering=0); f.write(b"auth 1 6461656d6f6e test -\\n")
                    print(f.readline(), flush=True); print("end", f.readline(), flush=True)
                    """, scene.pam.socket,
                ])
            _ = await client.output { $0.contains("ask pin") }
            await scene.broker.stop(SIGKILL)
            #expect(await client.remainder().output.contains("end b''"))
            let outcome = try await scene.signIn(typing: PAMScene.password)
            #expect(outcome.isSuccess, "\(outcome.text)")
        }
    }
}
