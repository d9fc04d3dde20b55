internal import Glibc

/// The login manager of this machine, systemd-logind, on the system bus
/// (`org.freedesktop.login1(5)`).
package struct LoginManager: Sendable {
    static let name = "org.freedesktop.login1"
    static let path = "/org/freedesktop/login1"
    static let manager = "org.freedesktop.login1.Manager"
    static let session = "org.freedesktop.login1.Session"
    static let properties = "org.freedesktop.DBus.Properties"
    static let lockedHint = "LockedHint"

    let bus: Bus

    package init(bus: Bus) { self.bus = bus }

    // MARK: Signals

    /// The machine is about to sleep (true), or is awake again (false).
    package static let sleepRule = SignalRule(
        from: name, path: path, interface: manager, member: "PrepareForSleep")

    /// A session has begun; the last argument is its path.
    static let beginRule = SignalRule(
        from: name, path: path, interface: manager, member: "SessionNew")

    /// A session has ended; the last argument is its path.
    static let endRule = SignalRule(
        from: name, path: path, interface: manager, member: "SessionRemoved")

    /// The signals of a session that can mean that it locks; see ``isLock(_:)``.
    ///
    /// - Parameter path: nil for all sessions.
    static func lockRules(of path: String?) -> [SignalRule] {
        [
            SignalRule(from: name, path: path, interface: session, member: "Lock"),
            SignalRule(
                from: name, path: path, interface: properties, member: "PropertiesChanged",
                argument: session),
        ]
    }

    /// Whether a signal of ``lockRules(of:)`` means that the session locks. True for a signal that
    /// cannot be decoded.
    static func isLock(_ signal: BusMessage) -> Bool {
        guard signal.member == "PropertiesChanged" else { return true }
        guard signal.arguments.count == 3, let changed = signal.arguments[1].dictionary,
            let invalidated = signal.arguments[2].strings
        else { return true }
        if let hint = changed[lockedHint] { return hint.bool != false }
        return invalidated.contains(lockedHint)
    }

    // MARK: Calls

    /// The path of the session of this process; nil if the process belongs to no session, for
    /// example a user service.
    func ownSession() async throws(BusError) -> String? {
        do throws(BusError) {
            // PID 0 means the calling process.
            let answer = try await bus.call(Self.target("GetSessionByPID"), [.uint32(0)])
            guard let path = answer.first?.string else { throw Self.unreadable }
            return path
        } catch {
            guard error.name == "\(Self.name).NoSessionForPID" else { throw error }
            return nil
        }
    }

    /// The paths of all sessions, and their users.
    func sessions() async throws(BusError) -> [(path: String, user: UInt32)] {
        guard let sessions = try await bus.call(Self.target("ListSessions")).first?.array else {
            throw Self.unreadable
        }
        return sessions.compactMap { session in
            guard let members = session.structure, members.count == 5, let user = members[1].uint32,
                let path = members[4].string
            else { return nil }
            return (path, user)
        }
    }

    /// The properties of a session.
    func session(at path: String) async throws(BusError) -> Session {
        let answer = try await bus.call(
            BusTarget(Self.name, path, Self.properties, "GetAll"), [.string(Self.session)])
        guard let members = answer.first?.dictionary,
            let user = members["User"]?.structure?.first?.uint32
        else {
            throw Self.unreadable
        }
        return Session(
            user: user, isLocked: members[Self.lockedHint]?.bool != false,
            isGraphical: Session.graphicalTypes.contains(members["Type"]?.string ?? ""),
            hasEnded: members["State"]?.string == "closing",
            display: members["Display"]?.string ?? "")
    }

    /// Delays the machine's sleep until the descriptor is closed, or logind's time limit has
    /// passed.
    ///
    /// - Parameter address: nil for the system bus.
    static func delaySleep(at address: String?) async throws(BusError) -> BusDescriptor {
        let bus = try await Bus.system(at: address, acceptsDescriptors: true)
        let reason = "Keys are removed from memory"
        let answer = try await bus.call(
            target("Inhibit"),
            [.string("sleep"), .string("Latchkey"), .string(reason), .string("delay")])
        guard let descriptor = answer.first?.descriptor else { throw unreadable }
        return descriptor
    }

    struct Session: Hashable, Sendable {
        fileprivate static let graphicalTypes: Set<String> = ["x11", "wayland", "mir"]

        let user: UInt32
        /// True without a readable `LockedHint`.
        var isLocked: Bool
        let isGraphical: Bool
        /// Whether the user has logged out, and processes of the session remain. It keeps its
        /// `LockedHint`.
        let hasEnded: Bool
        /// The X11 display; empty if there is none.
        let display: String

        /// Whether a user with these sessions cannot see the windows of a process that belongs to
        /// none of them: the session of its display is locked. If that session is unknown, all
        /// graphical sessions are, or all sessions if none is graphical.
        static func areLocked(_ sessions: [Session], display: String?) -> Bool {
            let sessions = sessions.filter { !$0.hasEnded }
            let graphical = sessions.filter(\.isGraphical)
            let own = graphical.filter { !$0.display.isEmpty && $0.display == display }
            let shown = !own.isEmpty ? own : graphical.isEmpty ? sessions : graphical
            return !shown.isEmpty && shown.allSatisfy(\.isLocked)
        }
    }

    static func target(_ method: String) -> BusTarget {
        BusTarget(name, path, manager, method)
    }

    static let unreadable = BusError(
        name: "org.latchkey.Bus.Error.Unreadable", message: "logind's answer cannot be read")

    /// The owner of logind's name has changed.
    static let restarted = BusError(
        name: "org.latchkey.Bus.Error.Restarted",
        message: "systemd-logind has ended or was restarted")
}
