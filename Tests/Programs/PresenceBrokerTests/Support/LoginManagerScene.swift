import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// A private bus with dbusmock's logind, and records that an observer locks. The test needs the
/// trait `.softwareTPM`.
struct LoginManagerScene {
    static let manager = "org.freedesktop.login1.Manager"
    private static let name = "org.freedesktop.login1"
    private static let path = "/org/freedesktop/login1"
    private static let mock = "org.freedesktop.DBus.Mock"
    static let stranger: UInt32 = geteuid() + 1

    let bus: MessageBus
    let records: RecordContainer
    let keystore: CountingKeystore
    let locks = LockLog()
    private let logind: RunningProgram

    /// - Parameter session: The session of this process; nil if it is in none.
    static func with(session: String? = "1", _ body: (LoginManagerScene) async throws -> Void)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            // Programs of other users can reach the bus.
            chmod(directory.path, 0o711)
            let bus = try await MessageBus(in: directory)
            let logind = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "DBUS_SYSTEM_BUS_ADDRESS=\(bus.address)", "/usr/bin/python3", "-m", "dbusmock",
                    "--system",
                    "--template", "logind",
                ])
            try await bus.wait(for: name)
            let store = try await RecordStore(directory: directory.path(of: "store"))
            let keystore = CountingKeystore(
                TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: store))
            let records = try RecordContainer(store: store, keystore: keystore)
            let scene = LoginManagerScene(
                bus: bus, records: records, keystore: keystore, logind: logind)
            let outcome: Result<Void, any Error>
            do {
                try await scene.prepare(session)
                outcome = .success(try await body(scene))
            } catch {
                outcome = .failure(error)
            }
            await logind.stop(SIGKILL)
            await bus.end()
            try outcome.get()
        }
    }

    private func prepare(_ session: String?) async throws {
        let answer =
            session.map { "ret = '\(Self.path)/session/\($0)'" }
            ?? "raise dbus.exceptions.DBusException('no session', name='\(Self.name).NoSessionForPID')"
        try await call("\(Self.mock).AddMethod", Self.manager, "GetSessionByPID", "u", "o", answer)
        try await open()
    }

    /// Opens the records.
    func open() async throws {
        let prompt = PromptContext(reason: "open the records")
        try await records.open(.device, for: prompt, authorizedBy: NobodyPresent())
        #expect(isOpen)
    }

    var isOpen: Bool { records.session(.device) != nil }

    // MARK: logind

    func addSession(_ id: String, of user: UInt32 = geteuid()) async throws {
        try await call("\(Self.mock).AddSession", id, "seat0", "\(user)", "user\(user)", "true")
    }

    /// Locks a session, as `loginctl lock-session` does.
    func lockSession(_ id: String) async throws {
        try await call("\(Self.name).Session.Lock", at: "/session/\(id)")
    }

    /// Sets `LockedHint`, as a desktop does.
    func setLockedHint(_ isLocked: Bool, of id: String) async throws {
        try await call("\(Self.name).Session.SetLockedHint", "\(isLocked)", at: "/session/\(id)")
    }

    /// Sets a property of a session that a display manager states.
    func set(_ property: String, to text: String, of id: String) async throws {
        try await call(
            "org.freedesktop.DBus.Properties.Set", "\(Self.name).Session", property,
            "<'\(text)'>", at: "/session/\(id)")
    }

    /// Announces the end of a session.
    func endSession(_ id: String) async throws {
        try await call(
            "\(Self.mock).EmitSignal", Self.manager, "SessionRemoved", "so",
            "[<'\(id)'>, <objectpath '\(Self.path)/session/\(id)'>]")
    }

    /// Announces sleep, or its end.
    func announceSleep(_ begins: Bool) async throws {
        try await call(
            "\(Self.mock).EmitSignal", Self.manager, "PrepareForSleep", "b", "[<\(begins)>]")
    }

    /// Whether a program delays sleep.
    func isSleepDelayed() async throws -> Bool {
        let text = try await call("\(Self.manager).ListInhibitors")
        return text.contains("('sleep', 'Latchkey'") && text.contains("'delay'")
    }

    /// Waits until a program delays sleep, or does not.
    func waitForDelay(_ isExpected: Bool) async throws {
        try #require(
            await poll { try await isSleepDelayed() == isExpected },
            "sleep is \(isExpected ? "not " : "")delayed")
    }

    func stopLogind() async { await logind.stop(SIGKILL) }

    @discardableResult
    private func call(_ method: String, _ arguments: String..., at object: String = "") async throws
        -> String
    {
        let result = try await HelperProgram.run(
            "gdbus",
            [
                "call", "--address", bus.address, "--dest", Self.name, "--object-path",
                Self.path + object,
                "--method", method,
            ] + arguments)
        try #require(result.isSuccess, "\(result.text)")
        return result.text
    }

    // MARK: The observer

    /// Runs an observer during the body, which begins when the observer delays the machine's sleep.
    ///
    /// - Returns: The observer's error, or nil if it was cancelled.
    @discardableResult
    func following(
        onLock: @escaping @Sendable () async -> Void = {}, _ body: () async throws -> Void
    ) async throws -> KeystoreError? {
        let (records, locks, address) = (records, locks, bus.address)
        let observer = Task { () async -> KeystoreError? in
            do throws(KeystoreError) {
                try await SessionLockObserver(busAddress: address).run(locking: [records]) {
                    await onLock()
                    locks.note()
                }
                return nil
            } catch {
                return error
            }
        }
        defer { observer.cancel() }
        try await waitForDelay(true)
        try await body()
        observer.cancel()
        return await observer.value
    }
}

/// The locks of an observer.
final class LockLog: Sendable {
    private let number = Mutex(0)

    var count: Int { number.withLock { $0 } }
    func note() { number.withLock { $0 += 1 } }

    /// Waits until there were that many locks.
    func wait(for expected: Int) async throws {
        try #require(await poll { count >= expected }, "\(count) of \(expected) locks")
    }
}
