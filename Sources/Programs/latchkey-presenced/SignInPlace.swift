import FoundationEssentials
import LatchkeyPlatform
import LatchkeyPresence

/// Whether a request to sign in comes from a person at this machine, and so which proofs it may ask
/// for. A terminal's name proves nothing. If in doubt, the answer is the password.
enum SignInPlace: Hashable, Sendable {
    /// Neither: remote, locked, at no seat, or unclear.
    case elsewhere
    /// The PIN only: the user also has a remote session, from which a program can attach to a
    /// terminal of the local one. It could wait until the user touches the reader for another
    /// reason.
    case besideRemote
    case here

    /// The statements of the kernel and logind about the process that asks.
    struct Requester: Hashable, Sendable {
        let isRoot: Bool
        /// The user who started the process, which may be a setuid program of root.
        let realUser: UInt32
        let parent: Int32
        /// The control group of the process, without the leading `/`.
        let controlGroup: String
        /// nil if the process belongs to no session.
        let session: LoginManager.SeatSession?

        /// Whether the program that opened the session started this one, and both are root's: gdm's
        /// worker starts another one for the locker. The user's programs have other parents, or are
        /// setuid programs.
        func isWorker(of session: LoginManager.SeatSession) -> Bool {
            isRoot && realUser == 0 && parent > 1 && UInt32(parent) == session.leader
        }

        /// The unit of the system's manager that started the process; nil within a user's slice, and
        /// within a scope, for example of a container, whose programs choose the names below it.
        var unit: Substring? {
            let parts = controlGroup.split(separator: "/")
            guard parts.first == "system.slice" else { return nil }
            return parts.first { !$0.hasSuffix(".slice") }.flatMap {
                $0.hasSuffix(".service") ? $0 : nil
            }
        }
    }

    /// Display managers start workers that belong to no session until the user has signed in.
    private static let displayManagers: Set<Substring> = [
        "gdm.service", "gdm3.service", "sddm.service", "lightdm.service", "greetd.service",
    ]
    /// These unlock a session without a greeter of their own, and each local user's programs can tell
    /// them to ask any user for a proof.
    private static let openDisplayManagers: Set<Substring> = ["gdm.service", "gdm3.service"]

    /// - Parameters:
    ///   - sessions: All sessions of the machine.
    ///   - users: All users who may run programs, also those without a session.
    ///   - unlocks: Whether the proof may unlock a session. If not, the service does not ask at
    ///     a locked one.
    static func of(
        _ requester: Requester, for user: UInt32, among sessions: [LoginManager.SeatSession],
        users: [UInt32], unlocks: Bool = true
    ) -> SignInPlace {
        // Another user's program, for example su, even in the user's own terminal.
        guard requester.realUser == user || requester.isRoot && requester.realUser == 0 else {
            return .elsewhere
        }
        // A remote session that ends may have processes for a long time, for example of mosh or tmux.
        let hasRemote = sessions.contains { $0.user == user && $0.isElsewhere }
        if let session = requester.session {
            // A locker belongs to the user and runs while the session is locked; GNOME's is a worker
            // of gdm. Root's other programs, such as sudo, must not ask behind a locked screen.
            guard session.user == user, session.isAtSeat, !session.isGreeter,
                !session.isLocked
                    || unlocks && (!requester.isRoot || requester.isWorker(of: session))
            else { return .elsewhere }
            return hasRemote ? .besideRemote : .here
        }
        guard !hasRemote else { return .elsewhere }
        let atSeat = sessions.filter {
            $0.user == user && $0.isAtSeat && !$0.isGreeter && (unlocks || !$0.isLocked)
        }
        let isUnlocked = atSeat.contains { !$0.isLocked }
        guard requester.isRoot else {
            // A locker that the user's manager started.
            return atSeat.isEmpty ? .elsewhere : .here
        }
        guard let unit = requester.unit else {
            // A setuid program in a terminal that the user's manager started.
            let isOfUser = requester.controlGroup.hasPrefix(
                "user.slice/user-\(user).slice/user@\(user).service/")
            return isOfUser && isUnlocked ? .here : .elsewhere
        }
        if displayManagers.contains(unit) {
            let own = sessions.filter(\.isGreeter).map(\.user) + [0, user]
            let isOpen = openDisplayManagers.contains(unit)
            // A program that got a connection of gdm in a session that has ended can still use it.
            guard !isOpen || users.allSatisfy(own.contains) else { return .elsewhere }
            // It may also serve remote desktops, at a greeter of their own.
            let greeters = sessions.filter { $0.isGreeter && !$0.hasEnded }
            guard greeters.allSatisfy({ !$0.isRemote && !$0.seat.isEmpty }) else {
                return .elsewhere
            }
            return greeters.contains(where: \.isAtSeat)
                || isOpen && atSeat.contains(where: \.isLocked) ? .here : .elsewhere
        }
        // Not the service of polkit's helper (since version 126): every user can connect to its socket
        // and name any user.
        let console = "getty@tty"
        // Not a serial line (getty@ttyS0).
        let isConsole = unit.dropFirst(console.count).first.map { ("0"..."9").contains($0) } == true
        return unit.hasPrefix(console) && isConsole ? .here : .elsewhere
    }

    /// Asks logind about the process of a connection.
    static func of(
        _ peer: PeerCredentials, for user: UInt32, on bus: Bus, unlocks: Bool
    ) async -> SignInPlace {
        guard let group = controlGroup(of: peer.process), let realUser = peer.realUser,
            let parent = peer.parent
        else { return .elsewhere }
        let logind = LoginManager(bus: bus)
        do throws(BusError) {
            let requester = Requester(
                isRoot: peer.user == 0, realUser: realUser, parent: parent, controlGroup: group,
                session: try await logind.seatSession(of: peer.process))
            return of(
                requester, for: user, among: try await logind.seatSessions(),
                users: try await logind.users(), unlocks: unlocks)
        } catch {
            return .elsewhere
        }
    }

    /// The control group that systemd manages, from `/proc` (cgroups(7)): that of version 2, or of
    /// the hierarchy `name=systemd`.
    private static func controlGroup(of process: Int32) -> String? {
        guard let bytes = FileManager.default.contents(atPath: "/proc/\(process)/cgroup") else {
            return nil
        }
        return controlGroup(in: String(decoding: bytes, as: UTF8.self))
    }

    static func controlGroup(in text: String) -> String? {
        let lines = text.split(separator: "\n").map {
            $0.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        }
        let line =
            lines.first { $0.count == 3 && $0[1] == "name=systemd" }
            ?? lines.first { $0.count == 3 && $0[0] == "0" && $0[1].isEmpty }
        return line.map { String($0[2].drop { $0 == "/" }) }
    }
}
