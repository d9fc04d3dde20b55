import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyDesktop

@Suite struct KWalletTests {
    private static let salt = (0..<56).map { UInt8($0) }

    @Test(.requires(program: "python3"))
    func `the key of a password is that of another implementation`() async throws {
        let key = try KWallet.key(password: KeyringUser.password, salt: Self.salt)
        let expected = try await SystemProgram("python3").require([
            "-c",
            "import hashlib; print(hashlib.pbkdf2_hmac('sha512', b'login-password', bytes(range(56)), 50000, 56).hex())",
        ])
        #expect(KeyringText.hexadecimal(key).text == expected.prefix(112))
        #expect(throws: CommonError.of(.invalidInput)) {
            try KWallet.key(password: SecretBytes([]), salt: Self.salt)
        }
        #expect(throws: CommonError.of(.invalidInput)) {
            try KWallet.key(password: KeyringUser.password, salt: [1])
        }
    }

    @Test func `a salt is the user's file of its exact length`() throws {
        let user = try KeyringUser()
        let wallet = KWallet(user.place)
        #expect(throws: CommonError.of(.notFound)) { try wallet.salt() }
        let folder = URL(filePath: user.place.dataDirectory).appending(path: "kwalletd")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: "kdewallet.salt")
        try Data(Self.salt).write(to: file)
        #expect(try wallet.salt() == Self.salt)
        for wrong in [Self.salt.dropLast(), Self.salt + [0]] {
            try Data(wrong).write(to: file)
            #expect(throws: CommonError.of(.refused)) { try wallet.salt() }
        }
        try FileManager.default.removeItem(at: file)
        try #require(mkfifo(file.path(), 0o600) == 0)
        #expect(throws: CommonError.of(.refused)) { try wallet.salt() }
    }

    /// A wallet daemon in a shell: `body` finds the key's pipe at descriptor 3.
    private static func daemon(_ user: KeyringUser, _ body: String) throws -> String {
        try user.directory.makeScript("home/daemon", "#!/bin/sh\n\(body)\n")
    }

    @Test func `the daemon gets the key, the socket and nothing else`() async throws {
        let user = try KeyringUser()
        let home = user.place.home
        let path = try Self.daemon(
            user,
            """
            ls /proc/self/fd > \(home)/descriptors; env > \(home)/environment; echo "$@" > \(home)/arguments
            head -c 56 <&3 > \(home)/key; exec 3<&-; touch \(home)/taken; sleep 300 & echo $! > \(home)/sleeper
            """)
        let key = SecretBytes((0..<56).map { UInt8($0) | 0x80 })
        // The daemon of this test ends after it took the key; until the deadline it is waited for.
        let result = Result {
            try KWallet(user.place).handOver(key, to: path, until: .now + hangLimit)
        }
        switch result {
        case .success(let daemon): #expect(waitpid(daemon, nil, 0) == daemon)
        case .failure(let error):
            // The shell can have ended before the check.
            #expect((error as? CommonError)?.reason == "the wallet daemon ended")
        }
        #expect(await poll { access("\(home)/sleeper", F_OK) == 0 })
        func text(_ name: String) throws -> String {
            try String(contentsOfFile: "\(home)/\(name)", encoding: .utf8)
        }
        defer {
            if let id = (try? text("sleeper")).flatMap({ Int32($0.dropLast()) }) {
                kill(id, SIGKILL)
            }
        }
        #expect(
            try Data(contentsOf: URL(filePath: "\(home)/key")).elementsEqual(
                (0..<56).map { UInt8($0) | 0x80 }))
        #expect(try text("arguments") == "--pam-login 3 4\n")
        let environment = try text("environment")
        #expect(
            environment.contains(
                "PAM_KWALLET5_LOGIN=\(user.place.runtimeDirectory)/kwallet5.socket\n"))
        #expect(!environment.contains("LATCHKEY"))
        // 0 to 4; ls has one more for the directory.
        #expect(try text("descriptors").split(separator: "\n").count <= 6)
        var status = stat()
        #expect(lstat(KWallet(user.place).socketPath, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o600)
    }

    @Test func `a daemon that is absent, ends or leaves the key is an error`() throws {
        let user = try KeyringUser()
        let wallet = KWallet(user.place)
        let key = SecretBytes.random(count: 56)
        #expect(throws: CommonError.of(.unavailable)) {
            try wallet.handOver(key, to: "/nonexistent/kwalletd", until: .now + hangLimit)
        }
        let hanging = try Self.daemon(user, "exec sleep 5")
        #expect(throws: CommonError.of(.unavailable)) {
            try wallet.handOver(key, to: hanging, until: .now + .milliseconds(100))
        }
        #expect(throws: CommonError.of(.invalidInput)) {
            try wallet.handOver(.random(count: 32), to: hanging, until: .now + hangLimit)
        }
    }
}

/// latchkey-keyring with KDE's real daemon, without a display.
@Suite(
    .requires(program: "kwalletd5"), .requires(program: "dbus-run-session"),
    .requires(program: "gdbus"), .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, which the PAM module is"))
struct KWalletDaemonTests {
    /// Starts the daemon with a key, sends the session's environment as pam_kwallet_init does, and
    /// returns whether the wallet is open. Stores or reads a password.
    private static let session = """
        import os, socket, subprocess, sys, time
        helper, key, action = sys.argv[1:]
        with open(key, "rb") as file: status = subprocess.run([helper, "kwallet", "120"], stdin=file).returncode
        print("helper", status)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.environ["XDG_RUNTIME_DIR"] + "/kwallet5.socket")
            for name in ("DBUS_SESSION_BUS_ADDRESS", "QT_QPA_PLATFORM", "HOME", "XDG_RUNTIME_DIR"):
                s.sendall(f"{name}={os.environ[name]}\\n".encode())
        def call(method, *arguments):
            command = ["gdbus", "call", "--session", "--timeout", "60", "--dest", "org.kde.kwalletd5", "--object-path",
                       "/modules/kwalletd5", "--method", "org.kde.KWallet." + method, *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True).stdout.strip()
        subprocess.run(["gdbus", "wait", "--session", "--timeout", "120", "org.kde.kwalletd5"], check=True)
        # The daemon answers only after it has tried the key.
        state = call("isOpen", "kdewallet")
        for _ in range(200):
            if "true" in state or action == "closed": break
            time.sleep(0.1); state = call("isOpen", "kdewallet")
        print("open", state)
        if "true" in state:
            handle = call("open", "kdewallet", 0, "test").strip("(),")
            if action == "store":
                call("createFolder", handle, "Passwords", "test")
                call("writePassword", handle, "Passwords", "test", "hunter2", "test"); call("sync", handle, "test")
            print("read", call("readPassword", handle, "Passwords", "test", "test"))
        owner = subprocess.run(["gdbus", "call", "--session", "--dest", "org.freedesktop.DBus", "--object-path", "/",
            "--method", "org.freedesktop.DBus.GetConnectionUnixProcessID", "org.kde.kwalletd5"], capture_output=True, text=True)
        os.kill(int(owner.stdout.split()[1].strip(",)")), 9)
        """

    private static func run(_ user: KeyringUser, key: SecretBytes, _ action: String) async throws
        -> String
    {
        let (program, file) = try user.share("latchkey-keyring", secret: key)
        let run = try user.start(
            "timeout",
            [
                "-k", "1", "200", "dbus-run-session", "--", "python3", "-c", session, program, file,
                action,
            ])
        let (output, errors) = await run.remainder()
        await run.wait()
        return output + errors
    }

    @Test func `the right key opens the wallet in a new session, a wrong one does not`()
        async throws
    {
        let user = try KeyringUser(asOther: true)
        let key = try KWallet.key(password: KeyringUser.password, salt: (0..<56).map { UInt8($0) })
        let first = try await Self.run(user, key: key, "store")
        #expect(first.contains("helper 0"), "\(first)")
        #expect(first.contains("hunter2"), "\(first)")
        let second = try await Self.run(user, key: key, "read")
        #expect(second.contains("hunter2"), "\(second)")
        let wrong = try await Self.run(user, key: .random(count: 56), "closed")
        #expect(wrong.contains("helper 0"), "\(wrong)")
        #expect(wrong.contains("open (false,)"), "\(wrong)")
        #expect(!wrong.contains("hunter2"))
    }
}
