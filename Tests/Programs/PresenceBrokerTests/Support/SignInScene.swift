import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// The service with its socket, a TPM, logind, and PAM with the module. The test needs root and the
/// trait `.softwareTPM`.
struct SignInScene {
    /// Debian's `daemon`, an account that exists on each machine; here it has a password.
    static let user: UInt32 = 1
    static let name = "daemon"
    static let pin = "493817"
    private static let logind = "org.freedesktop.login1"
    private static let path = "/org/freedesktop/login1"
    private static let mock = "org.freedesktop.DBus.Mock"

    let pam: PAMScene
    let broker: PresenceBrokerProcess
    private let address: String

    /// - Parameters:
    ///   - busAddress: The bus of a fingerprint reader; nil for one without fprintd.
    ///   - patience: See ``PresenceBrokerProcess``.
    static func with(
        busAddress: String? = nil, prints: String? = nil,
        program: URL = BrokerScene.program, patience: Int = 20,
        _ body: (SignInScene) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let bus = busAddress == nil ? try await MessageBus(in: directory) : nil
            let address = try #require(busAddress ?? bus?.address)
            let logind = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "DBUS_SYSTEM_BUS_ADDRESS=\(address)", "/usr/bin/python3", "-m", "dbusmock",
                    // It would wait when the pipe is full of the calls that it logs.
                    "--system", "--template", "logind", "--logfile", "/dev/null",
                ])
            let outcome: Result<Void, any Error>
            do {
                let pam = try PAMScene()
                let broker = try await PresenceBrokerProcess(
                    program, tcti: tpm.tcti, busAddress: address, prints: prints,
                    socket: pam.socket, patience: patience)
                let scene = SignInScene(pam: pam, broker: broker, address: address)
                do {
                    try await scene.prepare()
                    outcome = .success(try await body(scene))
                } catch {
                    outcome = .failure(error)
                }
                await broker.stop(SIGKILL)
            } catch {
                outcome = .failure(error)
            }
            await logind.stop(SIGKILL)
            await bus?.end()
            try outcome.get()
        }
    }

    /// A session of the user at the seat, to which every process belongs, and the user's PIN.
    private func prepare() async throws {
        let waited = try await HelperProgram.run(
            "gdbus", ["wait", "--address", address, "--timeout", "60", Self.logind])
        try #require(waited.isSuccess, "\(waited.text)")
        let session = "ret = '\(Self.path)/session/1'"
        try await call(
            "\(Self.mock).AddMethod", "\(Self.logind).Manager", "GetSessionByPID", "u", "o", session
        )
        try await call(
            "\(Self.mock).AddProperty", "\(Self.logind).Manager", "LidClosed", "<false>")
        try await call(
            "\(Self.mock).AddSession", "1", "seat0", "\(Self.user)", Self.name, "true")
        try await setPIN(Self.pin)
    }

    /// Sets a first PIN while the broker does not run, as any program of the user can. Removes an
    /// earlier one, as a program with access to the TPM can.
    func setPIN(_ text: String) async throws {
        await broker.stop()
        let authority = try await authority()
        let pin = try PIN(text)
        try await authority.work { (tpm, store) in
            guard let earlier = store.user(Self.user).pin else { return }
            try tpm.execute(NVUndefineSpace(try NVIndex(unmarshalling: earlier.publicArea)))
        }
        let unset = try await authority.makePIN(for: Self.user)
        try await authority.work { (tpm, store) in
            let index = try PresenceProtection.UserPIN(unset.pin)
            let initial = unset.initialValue.withUnsafeBytes { AuthValue($0) } ?? .empty
            try tpm.changeIndexPIN(
                of: index.index, index.branches, from: initial, to: index.authValue(pin),
                under: StorageRoot(anchor: store.existing.root))
        }
        try await broker.start()
    }

    /// Allows the user's PIN while the broker does not run, without a record.
    func allow(named name: String = Self.name) async throws {
        await broker.stop()
        let authority = try await authority()
        let sealed = try await authority.sealForSignIn(
            .random(count: 32), with: PIN(Self.pin), of: Self.user)
        try #require(
            await authority.allowSignIn(of: Self.user, named: name, sealedIn: sealed))
        try await broker.start()
    }

    private func authority() async throws -> ApprovalAuthority {
        try await ApprovalAuthority(
            tcti: SoftwareTPM.current.tcti, directory: broker.stateDirectory.path)
    }

    /// Clears the TPM while the broker does not run, as the firmware does it.
    func clearTPM() async throws {
        await broker.stop()
        let cleared = try await HelperProgram.run(
            "tpm2_clear", ["--tcti", SoftwareTPM.current.tcti, "-c", "platform"])
        try #require(cleared.isSuccess, "\(cleared.text)")
        try await broker.start()
    }

    /// Waits for the end of `learned`, which continues after the sign-in: requests that use a record
    /// are served one at a time, root's first.
    func finishLearning() async throws {
        _ = try await ask("release 1 61", as: Self.user)
    }

    /// A service of fingerprints that does not answer, as while fprintd starts.
    func silentFprintd() async throws -> RunningProgram {
        let service = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            [
                "DBUS_SYSTEM_BUS_ADDRESS=\(address)", "/usr/bin/python3", "-c",
                """
                import dbus, time
                dbus.SystemBus().request_name("net.reactivated.Fprint")
                print("ready", flush=True); time.sleep(300)
                """,
            ])
        _ = await service.output { $0.contains("ready") }
        return service
    }

    /// Sets a property of the user's session.
    func set(_ property: String, to value: String) async throws {
        try await call(
            "org.freedesktop.DBus.Properties.Set", "\(Self.logind).Session", property, "<\(value)>",
            at: "/session/1")
    }

    /// A line for ``ask(_:as:real:named:)`` that sets a property of the session, instead of sending.
    func setting(_ property: String, to value: String) -> String {
        "!gdbus call --address '\(address)' --dest \(Self.logind) --object-path \(Self.path)/session/1 "
            + "--method org.freedesktop.DBus.Properties.Set \(Self.logind).Session \(property) \"<\(value)>\""
    }

    private func call(_ method: String, _ arguments: String..., at object: String = "")
        async throws
    {
        let result = try await HelperProgram.run(
            "gdbus",
            [
                "call", "--address", address, "--dest", Self.logind, "--object-path",
                Self.path + object, "--method", method,
            ] + arguments)
        try #require(result.isSuccess, "\(result.text)")
    }

    /// Sends lines to the service, each after an answer, and returns the answers.
    ///
    /// - Parameters:
    ///   - user: The user of the client; nil for root.
    ///   - real: The user who started a setuid program of root.
    ///   - name: The name of the account that the module states; nil for the right one.
    func ask(
        _ lines: String..., as user: UInt32? = nil, real: UInt32? = nil, named name: String? = nil
    ) async throws -> [String] {
        try await exchange(lines, as: user, real: real, named: name)
    }

    /// Expects these answers to lines.
    func check(
        _ lines: String..., as user: UInt32? = nil, real: UInt32? = nil, named name: String? = nil,
        answers: [String], comment: Comment? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let given = try await exchange(lines, as: user, real: real, named: name)
        #expect(given == answers, comment, sourceLocation: sourceLocation)
    }

    /// Sends a line again and again, each time on a connection of its own, from one process: each
    /// program that starts would take time of the service's limits.
    ///
    /// - Returns: The answers; empty for a request that was refused.
    func repeated(_ line: String, times: Int, as user: UInt32? = nil) async throws -> [String] {
        let script = """
            import socket, sys
            for n in range(int(sys.argv[3])):
                s = socket.socket(socket.AF_UNIX); s.settimeout(300); s.connect(sys.argv[1])
                f = s.makefile("rwb", buffering=0)
                try: f.write(sys.argv[2].encode() + b"\\n"); print(f.readline().decode().rstrip("\\n"))
                except (BrokenPipeError, ConnectionResetError): print()
                # The service no longer counts the connection.
                try: s.shutdown(socket.SHUT_WR); s.recv(1)
                except OSError: pass
            """
        let drop =
            user.map { ["setpriv", "--reuid=\($0)", "--regid=\($0)", "--clear-groups"] } ?? []
        let result = try await HelperProgram.run(
            "env",
            drop + ["/usr/bin/python3", "-c", script, pam.socket, Self.complete(line), "\(times)"])
        return result.text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            .map(String.init)
    }

    /// A line with what the module adds: the name of the account, and that the password is checked.
    static func complete(_ line: String, named name: String? = nil) -> String {
        var words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        let lengths = ["auth": 4, "secret": 3, "learned": 3, "changed": 4]
        guard lengths[words[0]] == words.count else { return line }
        let account = name ?? ["0": "root", "1": Self.name, "2": "bin"][words[1]] ?? "other"
        let hex = account.utf8.map { String($0, radix: 16) }.joined()
        words.insert(contentsOf: words[0] == "learned" ? [hex, "checked"] : [hex], at: 2)
        return words.joined(separator: " ")
    }

    private func exchange(_ lines: [String], as user: UInt32?, real: UInt32?, named name: String?)
        async throws -> [String]
    {
        let lines = lines.map {
            $0.split(separator: "\n", omittingEmptySubsequences: false)
                .map { Self.complete(String($0), named: name) }.joined(separator: "\n")
        }
        let script = """
            import socket, subprocess, sys
            s = socket.socket(socket.AF_UNIX); s.settimeout(300); s.connect(sys.argv[1])
            f = s.makefile("rwb", buffering=0)
            try:
                for line in sys.argv[2:]:
                    if line.startswith("!"):
                        subprocess.run(line[1:], shell=True, check=True, stdout=subprocess.DEVNULL, user=0)
                        continue
                    f.write(line.encode() + b"\\n")
                    answer = f.readline().decode().rstrip("\\n")
                    # The time of the TPM begins.
                    if line.startswith("pin ") and answer == "wait":
                        answer = f.readline().decode().rstrip("\\n")
                    print(answer, flush=True)
                # A prompt waits for two minutes.
                while not answer.startswith("ask") and (rest := f.readline()):
                    print(rest.decode().rstrip("\\n"))
            except (BrokenPipeError, ConnectionResetError): pass
            """
        let drop =
            user.map { ["setpriv", "--reuid=\($0)", "--regid=\($0)", "--clear-groups"] }
            ?? real.map { ["setpriv", "--ruid=\($0)"] } ?? []
        let result = try await HelperProgram.run(
            "env", drop + ["/usr/bin/python3", "-c", script, pam.socket] + lines)
        return result.text.split(separator: "\n").map(String.init)
    }

    func signIn(typing input: String..., then operations: [String] = []) async throws
        -> SystemProgram.Outcome
    {
        try await pam.run(
            ["pamtester", "one", Self.name, "authenticate"] + operations, input: input)
    }
}
