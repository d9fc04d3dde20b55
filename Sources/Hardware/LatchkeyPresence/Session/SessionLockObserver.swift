internal import Glibc
public import Latchkey

/// Locks records when the user's session locks or the machine sleeps, like
/// `kSecAttrAccessibleWhenUnlocked` on iOS.
///
/// It receives the signals of systemd-logind on the system bus. Run it in a task for as long as the
/// app runs:
///
/// ```swift
/// Task { try await SessionLockObserver().run(locking: [records]) }
/// ```
///
/// The observed session is the one to which this process belongs. A process that belongs to no
/// session, for example a user service, observes all sessions of the user, and locks the records
/// when one of them locks. A session locks when logind sends `Lock` (`loginctl lock-session`), when
/// the desktop sets `LockedHint`, and when the session ends. Signals from other programs and for
/// other users' sessions have no effect. If a new session ends before logind can name its user, the
/// records are locked.
public struct SessionLockObserver: Sendable {
    private let busAddress: String?

    /// - Parameter busAddress: The address of the bus; nil for the bus that
    ///   `DBUS_SYSTEM_BUS_ADDRESS` names, or the system bus if that variable is not set.
    public init(busAddress: String? = nil) {
        self.busAddress = busAddress
    }

    /// Locks the containers each time the session locks or the machine is about to sleep, until the
    /// task is cancelled.
    ///
    /// The machine sleeps only after the containers are locked and `onLock` has returned, or after
    /// logind's time limit (`InhibitDelayMaxSec`, 5 seconds by default). If the session is already
    /// locked, the call locks at once. After a lock, the app must open its records again, for
    /// example with `VaultSpace.open()`.
    ///
    /// - Parameters:
    ///   - containers: The containers to lock, as `RecordContainer.lock()` does.
    ///   - onLock: Called after each lock, for other secrets and the app's windows. Return soon:
    ///     the observer handles the next lock only after the return.
    /// - Throws: `KeystoreError` with code `unavailable` if the bus or logind is missing: the call
    ///   then locks nothing. It has the same code if the connection is lost: the containers are
    ///   then locked, and `onLock` was called. Call this method again to continue.
    public func run(
        locking containers: [RecordContainer], onLock: @Sendable () async -> Void = {}
    ) async throws(KeystoreError) {
        try await follow { _ in
            for container in containers { await container.lock() }
            await onLock()
        }
    }

    /// Calls `onLock` as ``run(locking:onLock:)`` does, with the path of the session that locked or
    /// ended; nil if the machine sleeps or the connection is lost.
    func follow(_ onLock: @Sendable (String?) async -> Void) async throws(KeystoreError) {
        // Released after the lock, also if an error ends the call.
        var delay: BusDescriptor?
        defer { delay?.close() }
        do throws(BusError) {
            try await observe(delaying: &delay, onLock)
        } catch {
            // Without the sleep delay, the observer has not started.
            if delay != nil { await onLock(nil) }
            throw Self.failure(error)
        }
    }

    /// Whether the session is locked now. For a process that belongs to no session: whether the
    /// session of its display is, or all graphical sessions of the user if that one is unknown.
    ///
    /// False without the bus or logind. True if logind's answer is missing or cannot be read.
    ///
    /// - Parameters:
    ///   - display: The X11 display of the process's windows.
    ///   - locking: The path of a session that counts as locked: `Lock` precedes `LockedHint`.
    package func isLocked(display: String? = nil, locking: String? = nil) async -> Bool {
        do throws(BusError) {
            let bus = try await Bus.system(at: busAddress)
            defer { withExtendedLifetime(bus) {} }
            guard try await bus.owner(of: LoginManager.name) != nil else { return false }
            let logind = LoginManager(bus: bus)
            if let own = try await logind.ownSession() {
                if own == locking { return true }
                return try await logind.session(at: own).isLocked
            }
            var sessions: [LoginManager.Session] = []
            for (path, user) in try await logind.sessions() where user == geteuid() {
                var session = try await logind.session(at: path)
                if path == locking { session.isLocked = true }
                sessions.append(session)
            }
            return LoginManager.Session.areLocked(sessions, display: display)
        } catch {
            return !error.isAbsence
        }
    }

    private enum Event: Sendable {
        case lock(session: String)
        case begin(session: String)
        case end(session: String)
        case sleep(Bool)
        case logindLost
    }

    private func observe(
        delaying delay: inout BusDescriptor?, _ lock: (String?) async -> Void
    ) async throws(BusError) {
        let (events, sink) = AsyncStream.makeStream(of: Event.self)
        let bus = try await Bus.system(at: busAddress) { sink.finish() }
        // The subscriptions end with the connection.
        defer { withExtendedLifetime(bus) {} }
        let logind = LoginManager(bus: bus)
        let own = try await logind.ownSession()
        for rule in LoginManager.lockRules(of: own) {
            _ = try await bus.subscribe(rule) { signal in
                if LoginManager.isLock(signal) { sink.yield(.lock(session: signal.path)) }
            }
        }
        if own == nil {
            _ = try await bus.subscribe(LoginManager.beginRule) { signal in
                if let path = signal.arguments.last?.string { sink.yield(.begin(session: path)) }
            }
        }
        _ = try await bus.subscribe(LoginManager.endRule) { signal in
            if let path = signal.arguments.last?.string { sink.yield(.end(session: path)) }
        }
        _ = try await bus.subscribe(LoginManager.sleepRule) { signal in
            // An unreadable signal counts as the announcement of sleep.
            sink.yield(.sleep(signal.arguments.first?.bool != false))
        }
        _ = try await bus.subscribe(.ownerChanges(of: LoginManager.name)) { _ in
            sink.yield(.logindLost)
        }
        guard try await bus.owner(of: LoginManager.name) != nil else {
            throw LoginManager.restarted
        }
        delay = try await LoginManager.delaySleep(at: busAddress)

        /// Whether to observe each session, by its path. logind does not reuse the ids of sessions.
        var isOwn: [String: Bool] = [:]
        let sessions =
            if let own { [(path: own, user: geteuid())] } else { try await logind.sessions() }
        for (path, user) in sessions {
            isOwn[path] = user == geteuid()
            if user == geteuid(), try await logind.session(at: path).isLocked {
                sink.yield(.lock(session: path))
            }
        }
        for await event in events {
            switch event {
            case .begin(let path), .lock(let path):
                if isOwn[path] == nil, let session = try? await logind.session(at: path) {
                    isOwn[path] = session.user == geteuid()
                }
                // If the user of the session is unknown, lock too.
                if case .lock = event, isOwn[path] != false { await lock(path) }
            case .end(let path):
                if own == nil ? isOwn[path] != false : path == own { await lock(path) }
            case .sleep(true):
                await lock(nil)
                delay?.close()
            case .sleep(false): delay = try await LoginManager.delaySleep(at: busAddress)
            case .logindLost: throw LoginManager.restarted
            }
        }
        guard Task.isCancelled else { throw .closed }
    }

    private static func failure(_ error: BusError) -> KeystoreError {
        KeystoreError(
            operation: "observe the session's locks", code: .unavailable,
            reason: error.isAbsence
                ? "systemd-logind or the system bus is missing"
                : "systemd-logind refused the request, or the connection to it was lost",
            recovery: error.isAbsence
                ? "Lock the records in the app when it is not in use."
                : "Run the observer again. Until then, lock the records in the app when it is not in use.",
            underlying: .init(layer: "dbus", text: "\(error.name): \(error.message)"))
    }
}
