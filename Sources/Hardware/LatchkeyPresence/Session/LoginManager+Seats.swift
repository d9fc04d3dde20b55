/// What decides whether a request to sign in comes from a person at this machine.
extension LoginManager {
    /// A session, as far as the sign-in needs it. Everything that logind does not state, or that
    /// cannot be read, counts against it.
    package struct SeatSession: Hashable, Sendable {
        package var user: UInt32
        package var isRemote: Bool
        /// Empty if the session belongs to no seat.
        package var seat: String
        package var isActive: Bool
        /// Whether it shows the display manager.
        package var isGreeter: Bool
        package var isLocked: Bool
        package var hasEnded: Bool
        /// Whether no person has it: a user's manager, or for example a job of cron.
        package var isBackground: Bool
        /// The process that opened it; 0 if it is unknown.
        package var leader: UInt32

        package init(
            user: UInt32, isRemote: Bool = false, seat: String = "seat0", isActive: Bool = true,
            isGreeter: Bool = false, isLocked: Bool = false, hasEnded: Bool = false,
            isBackground: Bool = false, leader: UInt32 = 0
        ) {
            (self.user, self.isRemote, self.seat) = (user, isRemote, seat)
            (self.isActive, self.isGreeter) = (isActive, isGreeter)
            (self.isLocked, self.hasEnded) = (isLocked, hasEnded)
            (self.isBackground, self.leader) = (isBackground, leader)
        }

        /// Whether a person elsewhere may have it: not every program that serves remote sessions
        /// states so.
        package var isElsewhere: Bool { isRemote || seat.isEmpty && !isBackground }

        /// Whether a person at a seat of this machine sees it now.
        package var isAtSeat: Bool { !isRemote && !seat.isEmpty && isActive && !hasEnded }
    }

    /// The session of a process; nil if the process belongs to none.
    package func seatSession(of process: Int32) async throws(BusError) -> SeatSession? {
        guard process > 0 else { throw Self.unreadable }
        let answer: [BusValue]
        do throws(BusError) {
            answer = try await bus.call(
                Self.target("GetSessionByPID"), [.uint32(UInt32(process))])
        } catch {
            guard error.name == "\(Self.name).NoSessionForPID" else { throw error }
            return nil
        }
        guard let path = answer.first?.string else { throw Self.unreadable }
        return try await seatSession(at: path)
    }

    /// All sessions.
    ///
    /// - Throws: ``BusError`` also if one session cannot be read, because it may be a remote one.
    ///   One that ended after the list was read does not count.
    package func seatSessions() async throws(BusError) -> [SeatSession] {
        var found: [SeatSession] = []
        for (path, _) in try await sessions() {
            do throws(BusError) {
                found.append(try await seatSession(at: path))
            } catch {
                guard error.name == "org.freedesktop.DBus.Error.UnknownObject" else { throw error }
            }
        }
        return found
    }

    /// The users with a session, and those whose manager runs without one (`loginctl enable-linger`).
    package func users() async throws(BusError) -> [UInt32] {
        guard let users = try await bus.call(Self.target("ListUsers")).first?.array else {
            throw Self.unreadable
        }
        var found: [UInt32] = []
        for user in users {
            guard let number = user.structure?.first?.uint32 else { throw Self.unreadable }
            found.append(number)
        }
        return found
    }

    /// Whether the lid is closed, under which the fingerprint reader usually is.
    package func isLidClosed() async throws(BusError) -> Bool {
        let answer = try await bus.call(
            BusTarget(Self.name, Self.path, Self.properties, "GetAll"), [.string(Self.manager)])
        return answer.first?.dictionary?["LidClosed"]?.bool != false
    }

    private func seatSession(at path: String) async throws(BusError) -> SeatSession {
        let answer = try await bus.call(
            BusTarget(Self.name, path, Self.properties, "GetAll"), [.string(Self.session)])
        guard let members = answer.first?.dictionary,
            let user = members["User"]?.structure?.first?.uint32
        else { throw Self.unreadable }
        return SeatSession(
            user: user, isRemote: members["Remote"]?.bool != false,
            seat: members["Seat"]?.structure?.first?.string ?? "",
            isActive: members["Active"]?.bool == true,
            isGreeter: members["Class"]?.string == "greeter",
            isLocked: members[Self.lockedHint]?.bool != false,
            hasEnded: members["State"]?.string.map { $0 == "closing" } ?? true,
            isBackground: members["Class"]?.string.map {
                $0.hasPrefix("manager") || $0.hasPrefix("background")
            } ?? false,
            leader: members["Leader"]?.uint32 ?? 0)
    }
}
