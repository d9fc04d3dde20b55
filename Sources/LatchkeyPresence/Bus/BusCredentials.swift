/// Who a client of the bus is.
package struct BusCredentials: Hashable, Sendable {
    /// The POSIX user as whom it connected.
    package let user: UInt32
    /// The process that connected, where the bus says so. It may have ended since, and its number may be another's.
    package let process: Int32?

    package init(user: UInt32, process: Int32?) {
        self.user = user
        self.process = process
    }

    /// The answer to `GetConnectionCredentials` (D-Bus Specification, section "Message Bus Messages"); nil when it names
    /// no user.
    init?(_ answer: [BusValue]) {
        guard let facts = answer.first?.dictionary, let user = facts["UnixUserID"]?.uint32 else { return nil }
        self.init(user: user, process: facts["ProcessID"]?.uint32.flatMap { Int32(exactly: $0) })
    }
}
