import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Sign-in with a finger at the virtual reader.
@Suite(
    .requires(program: "cc"), .requires(program: "pamtester"), .requires(program: "unshare"),
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"),
    .enabled(if: geteuid() == 0, "needs root, for accounts of its own"), .softwareTPM,
    .virtualFinger)
struct FingerSignInTests {
    @Test func `a finger signs in and opens the keyring, and another finger does not`() async throws
    {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            let secret = String(repeating: "3c", count: 32)
            let password = PAMScene.password.utf8.map { String($0, radix: 16) }.joined()
            try await scene.check(
                "enrol 1 gnome \(secret) \(password) \(SignInScene.pin)", answers: ["done 1"])
            try await scene.allow()
            async let signedIn = scene.signIn(typing: "", then: ["open_session"])
            try await reader.present(.finger("mine"))
            let outcome = try await signedIn
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(outcome.text.contains("Place your finger on the reader."))
            #expect(try await scene.pam.opened().contains(secret))
            async let refused = scene.signIn(typing: "", "nothing")
            try await reader.present(.finger("another"))
            let other = try await refused
            #expect(!other.isSuccess && other.text.contains("not recognized"), "\(other.text)")
        }
    }

    /// The PIN that the user has may be another program's.
    @Test func `a record for a finger alone lets the finger sign in, and no PIN`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            let secret = String(repeating: "3c", count: 32)
            let password = PAMScene.password.utf8.map { String($0, radix: 16) }.joined()
            let user = SignInScene.user
            func enrol(with finger: String) async throws -> [String] {
                async let answers = scene.ask(
                    "enrol 1 gnome \(secret) \(password) finger", as: user)
                try await reader.present(.finger(finger))
                return try await answers
            }
            #expect(try await enrol(with: "another") == ["touch", "no"])
            try await scene.set("Remote", to: "true")
            try await scene.check(
                "enrol 1 gnome \(secret) \(password) finger", as: user, answers: ["none"])
            try await scene.set("Remote", to: "false")
            #expect(try await enrol(with: "mine") == ["touch", "done 1"])
            try await scene.check(
                "status 1", as: user,
                answers: ["status pending gnome 1 finger fresh set unproven"])
            try await scene.check("auth 1 test -", answers: ["none"])
            try await scene.check(
                "learned 1 \(password)", answers: ["wait gnome", "secret gnome \(secret)"])
            try await scene.check(
                "status 1", as: user, answers: ["status pending gnome 1 finger fresh set allowed"])
            try await scene.check(
                "auth 1 test -", "pin \(SignInScene.pin)", answers: ["ask finger"])
            async let signedIn = scene.signIn(typing: "", then: ["open_session"])
            try await reader.present(.finger("mine"))
            let outcome = try await signedIn
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(try await scene.pam.opened().contains(secret))
            try await scene.set("LockedHint", to: "true")
            try await scene.check("renew 1 6e6577 finger", as: user, answers: ["none"])
            try await scene.set("LockedHint", to: "false")
            // Root changed the password: the finger opens the secret for a copy under the new one.
            async let renewed = scene.ask("renew 1 6e6577 finger", as: user)
            try await reader.present(.finger("mine"))
            #expect(try await renewed == ["touch", "done 2"])
            try await scene.check("release 1 6e6577", answers: ["secret gnome \(secret)"])
        }
    }

    /// The user touches the reader once, for another request. The program chooses password and PIN.
    @Test func `a PIN of a program that got one finger is not allowed by the password`()
        async throws
    {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            let secret = String(repeating: "3c", count: 32)
            let password = PAMScene.password.utf8.map { String($0, radix: 16) }.joined()
            let user = SignInScene.user
            let opened = ["wait gnome", "secret gnome \(secret)"]
            try await scene.check(
                "enrol 1 gnome \(secret) \(password) \(SignInScene.pin)", as: user,
                answers: ["done 1"])
            async let renewed = scene.ask("renew 1 61 finger", as: user)
            try await reader.present(.finger("mine"))
            #expect(try await renewed == ["touch", "done 2"])
            try await scene.check(
                "status 1", as: user,
                answers: ["status pending gnome 2 finger fresh set unproven"])
            try await scene.setPIN("000000")
            try await scene.check("renew 1 61 000000", as: user, answers: ["done 3"])
            try await scene.check("learned 1 \(password)", answers: opened)
            try await scene.check("auth 1 test -", answers: ["none"])
            // The user seals it again.
            try await scene.check(
                "status 1", as: user,
                answers: ["status pending gnome 4 absent fresh set unproven"])
            try await scene.check("renew 1 \(password) 000000", as: user, answers: ["done 5"])
            try await scene.check("learned 1 \(password)", answers: opened)
            try await scene.check("auth 1 test -", answers: ["ask pin finger"])
        }
    }

    /// A program enrols first, with its own password and PIN. The user enables a finger alone.
    @Test func `a finger of the user does not prove the PIN of the record's program`() async throws
    {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            let secret = String(repeating: "3c", count: 32)
            let password = PAMScene.password.utf8.map { String($0, radix: 16) }.joined()
            let user = SignInScene.user
            try await scene.check(
                "enrol 1 gnome \(secret) 61 \(SignInScene.pin)", as: user, answers: ["done 1"])
            async let renewed = scene.ask("renew 1 \(password) finger", as: user)
            try await reader.present(.finger("mine"))
            #expect(try await renewed == ["touch", "done 2"])
            try await scene.check(
                "learned 1 \(password)", answers: ["wait gnome", "secret gnome \(secret)"])
            try await scene.check("auth 1 test -", answers: ["ask finger"])
        }
    }

    /// A program that waits in the background must not get the finger for another request.
    @Test func `another request of the user ends a sign-in that waits for a finger`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            try await scene.allow()
            let first = try await Self.waiting(in: scene)
            try await scene.check(
                "auth 1 other -", "finger", answers: ["ask pin finger", "none"])
            #expect(await first.remainder().output.contains("then b'none"))
        }
    }

    /// A program must not keep the reader. A finger that matches begins the count again.
    @Test func `after three fingers that do not match, none is asked for within a minute`()
        async throws
    {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            try await scene.allow()
            for finger in ["another", "mine", "another", "another", "another"] {
                async let answers = scene.ask("auth 1 test -", "finger")
                try await reader.present(.finger(finger))
                let answer = finger == "mine" ? "yes" : "no"
                #expect(try await answers == ["ask pin finger", "touch", answer])
            }
            try await scene.check(
                "auth 1 test -", "finger", answers: ["ask pin finger", "none"])
            try await scene.check(
                "auth 1 test -", "pin \(SignInScene.pin)", answers: ["ask pin finger", "yes"])
            async let own = scene.ask("auth 1 test -", "finger", as: SignInScene.user)
            try await reader.present(.finger("mine"))
            #expect(
                try await own == ["ask pin finger", "touch", "yes"],
                "programs of the user have a count of their own")
        }
    }

    /// A program with a prompt that is open answers it when another request was approved.
    @Test func `a finger that stays on the reader is not taken for the next request`() async throws
    {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            try await scene.allow()
            // Two prompts are open. The second one is answered right after the first.
            let client = try RunningProgram(
                URL(filePath: "/usr/bin/python3"),
                [
                    "-c",
                    """
                    import socket, sys, time
                    files = []
                    for n in range(2):
                        s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
                        f = s.makefile("rwb", buffering=0); files.append(f)
                        f.write(b"auth 1 6461656d6f6e test -\\n"); f.readline()
                    files[0].write(b"finger\\n"); print(files[0].readline(), flush=True)
                    waiting = time.monotonic()
                    print(files[0].readline(), flush=True)
                    files[1].write(b"finger\\n"); print(files[1].readline(), flush=True)
                    print("after", "a pause" if time.monotonic() - waiting >= 1 else "no pause")
                    """, scene.pam.socket,
                ])
            _ = await client.output { $0.contains("touch") }
            try await reader.present(.finger("mine"))
            let output = await client.remainder().output
            #expect(output.contains("b'yes") && output.contains("after a pause"), "\(output)")
        }
    }

    /// Another user can request a finger of its own again and again, also over ssh.
    @Test(.requires(program: "setpriv"), .requires(program: "dbus-monitor"))
    func `another user's finger ends soon after a sign-in waits`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await reader.enroll(.rightThumb, as: "strangers", for: "nobody")
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            try await scene.allow()
            let other = try await Stranger(on: reader.busAddress).requestFinger()
            let client = try await Self.waiting(in: scene)
            try await reader.present(.finger("mine"))
            #expect(await client.remainder().output.contains("then b'yes"))
            #expect(await other.remainder().errors.contains("the request was cancelled"))
        }
    }

    /// The screen is locked while the reader waits.
    @Test func `a finger counts only if its place may still ask`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: SignInScene.name)
        try await SignInScene.with(
            busAddress: reader.busAddress, prints: reader.printsDirectory
        ) { scene in
            try await scene.allow()
            let client = try await Self.waiting(in: scene)
            try await scene.set("LockedHint", to: "true")
            try await reader.present(.finger("mine"))
            #expect(await client.remainder().output.contains("then b'none"))
            try await scene.check("auth 1 test -", real: SignInScene.user, answers: ["none"])
        }
    }

    /// A setuid program that waits for a touch, and then prints the answer after `then`.
    private static func waiting(in scene: SignInScene) async throws -> RunningProgram {
        let client = try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            [
                "--ruid=\(SignInScene.user)", "/usr/bin/python3", "-c",
                """
                import socket, sys
                s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
                f = s.makefile("rwb", buffering=0); f.write(b"auth 1 6461656d6f6e test -\\n")
                print(f.readline(), flush=True); f.write(b"finger\\n")
                print(f.readline(), flush=True); print("then", f.readline(), flush=True)
                """, scene.pam.socket,
            ])
        _ = await client.output { $0.contains("touch") }
        return client
    }
}
