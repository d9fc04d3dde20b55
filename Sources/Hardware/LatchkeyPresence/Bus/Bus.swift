internal import CSystemd
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// A connection to the system bus, with its own thread. Closed with the last reference.
package actor Bus {
    private let pump = BusPump()
    private let thread: BlockingThread
    private var open: BusConnection {
        get throws(BusError) {
            guard let connection = pump.connection else { throw .closed }
            return connection
        }
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    private init() {
        thread = pump.makeThread()
    }

    deinit { thread.enqueue { [pump] in pump.connection?.close() } }

    package typealias Reply = Result<[BusValue], BusError>

    /// Connects to a system bus.
    ///
    /// - Parameters:
    ///   - address: nil for the bus that `DBUS_SYSTEM_BUS_ADDRESS` names, or the system bus if it
    ///     is not set.
    ///   - acceptsDescriptors: Whether messages with file descriptors are received. Use such a
    ///     connection only briefly: libsystemd closes it if it receives more descriptors than the
    ///     process can open.
    ///   - onClose: Called when the connection is lost or closed.
    package static func system(
        at address: String? = nil, acceptsDescriptors: Bool = false,
        onClose: @escaping @Sendable () -> Void = {}
    ) async throws(BusError) -> Bus {
        let bus = Bus()
        try await bus.connect(address, acceptsDescriptors, onClose)
        return bus
    }

    private func connect(
        _ address: String?, _ acceptsDescriptors: Bool, _ onClose: @escaping @Sendable () -> Void
    ) throws(BusError) {
        pump.connection = try BusConnection(
            address: address, acceptsDescriptors: acceptsDescriptors, onClose: onClose)
    }

    /// Calls a method and waits for its answer.
    ///
    /// - Parameter timeout: At least one millisecond.
    package func call(
        _ target: BusTarget, _ arguments: [BusValue] = [], timeout: Duration = .seconds(10)
    ) async throws(BusError) -> [BusValue] {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Reply, Never>) in
            send(target, arguments, timeout: timeout) { continuation.resume(returning: $0) }
        }
        return try result.get()
    }

    /// Calls a method. `receive` gets the answer once. Answers and signals arrive in the bus's
    /// order.
    package func send(
        _ target: BusTarget, _ arguments: [BusValue] = [], timeout: Duration = .seconds(10),
        _ receive: @escaping @Sendable (Reply) -> Void
    ) {
        let microseconds = UInt64(max(1, timeout / .milliseconds(1))) * 1000
        let answer = Once(receive)
        do throws(BusError) {
            // A lost connection must also end the call.
            try open.call(target, arguments, timeout: microseconds) { answer.give($0) }
        } catch {
            answer.give(.failure(error))
        }
    }

    /// Passes the signals that match a rule to `receive`, in order. Forged signals of other
    /// programs are discarded.
    ///
    /// - Returns: The subscription, for ``forget(_:)``.
    package func subscribe(
        _ rule: SignalRule, _ receive: @escaping @Sendable (BusMessage) -> Void
    ) async throws(BusError) -> UInt64 {
        try await open.subscribe(rule) { receive($0) }
    }

    /// The name of this connection, for example `:1.42`.
    package var uniqueName: String {
        get throws(BusError) { try open.uniqueName }
    }

    package func forget(_ subscription: UInt64) { pump.connection?.forget(subscription) }

    /// The unique name of the owner of a name; nil if the name has no owner. A change of owner is
    /// known here before any message of the new owner.
    package func owner(of name: String) async throws(BusError) -> String? {
        try await open.owner(of: name)
    }

    /// Whether the bus reports that a name has no owner and cannot be activated.
    package func isUnserved(_ name: String) async throws(BusError) -> Bool {
        try await open.isUnserved(name)
    }

    /// What to do with a call.
    package enum CallHandling: Sendable {
        case answer(Reply)
        /// ``reply(to:_:)`` or ``drop(_:)`` ends the call. A call that is not readable is ignored
        /// instead.
        case later
        /// No answer. The call then uses one of the client's places for calls (dbus-daemon: 128).
        case ignore
    }

    /// Passes all method calls to `receive`, in order. Messages are untrusted, and any program can
    /// send them: `receive` decides which calls are answered.
    package func serve(_ receive: @escaping @Sendable (BusMessage) -> CallHandling)
        throws(BusError)
    {
        try open.serve { receive($0) }
    }

    package func own(_ name: String) throws(BusError) {
        try open.own(name)
    }

    /// Answers a call. A second answer is ignored.
    ///
    /// - Throws: ``BusError``, and the call gets no answer, also if the bus takes this program's
    ///   messages too slowly.
    package func reply(to call: BusMessage, _ result: Reply) throws(BusError) {
        guard let ticket = call.ticket else { throw .closed }
        try open.reply(to: ticket, result)
    }

    /// Ends a call without an answer.
    package func drop(_ call: BusMessage) {
        if let ticket = call.ticket { pump.connection?.drop(ticket) }
    }

    /// Sends a signal to one client.
    package func signal(_ target: BusTarget, _ arguments: [BusValue]) throws(BusError) {
        try open.signal(target, arguments)
    }

    /// Gets a client's credentials from the bus. `receive` gets the answer once, in the bus's order
    /// of answers and signals.
    package func askCredentials(
        of client: String, _ receive: @escaping @Sendable (Result<BusCredentials, BusError>) -> Void
    ) {
        send(BusConnection.bus("GetConnectionCredentials"), [.string(client)]) { answer in
            receive(
                answer.flatMap { (values) -> Result<BusCredentials, BusError> in
                    BusCredentials(values).map { .success($0) }
                        ?? .failure(BusError(-EINVAL, "get the credentials of \(client)"))
                })
        }
    }

    /// Waits until the bus has taken all messages that were sent.
    ///
    /// - Throws: ``BusError``, also if the bus has not answered after `timeout`. dbus-daemon takes
    ///   no messages of a program while those of its messages that the recipients have not read
    ///   exceed a limit (`max_incoming_bytes`, for all recipients together). It forgets them when
    ///   the program disconnects.
    package func flush(within timeout: Duration) async throws(BusError) {
        _ = try await call(BusConnection.bus("GetId"), timeout: timeout)
    }

    /// Tells systemd that the service is ready. Does nothing in a process that systemd did not
    /// start.
    package nonisolated static func notifyReady() { sd_notify(0, "READY=1") }
}

/// A received signal or method call. The bus guarantees the sender.
package struct BusMessage: Sendable {
    /// The sender's unique name, for example `:1.42`.
    package let sender: String
    /// The object that sent the signal or on which the method is called.
    package let path: String
    package let interface: String
    package let member: String
    package let arguments: [BusValue]
    /// Identifies a method call for ``Bus/reply(to:_:)``.
    package let ticket: UInt64?
    /// Whether all arguments were read, and the message is not too long to be stored.
    package var isReadable = true
}

/// A method or signal, with its object and destination.
package struct BusTarget: Hashable, Sendable {
    package var destination: String
    package var path: String
    package var interface: String
    package var member: String

    package init(_ destination: String, _ path: String, _ interface: String, _ member: String) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
    }
}

/// The error of a call on a bus.
package struct BusError: Error, Hashable, Sendable {
    /// The error's name, for example `org.freedesktop.DBus.Error.ServiceUnknown`.
    package let name: String
    package let message: String

    package init(name: String, message: String) {
        self.name = name
        self.message = message
    }

    /// A local error, by its `errno` (negative, as sd-bus returns it).
    init(_ code: Int32, _ doing: String) {
        self.init(
            name: "org.latchkey.Bus.Error.Local",
            message: "could not \(doing): \(SystemError(-code))")
    }

    static func check(_ code: Int32, _ doing: String = "encode an argument") throws(BusError) {
        guard code >= 0 else { throw BusError(code, doing) }
    }

    package static let closed = BusError(
        name: "org.latchkey.Bus.Error.Closed", message: "the connection to the bus is closed")

    /// The machine has no system bus: the bus's socket does not exist.
    static let noBus = BusError(
        name: "org.freedesktop.DBus.Error.NoServer", message: "there is no system bus")

    /// The bus takes this program's messages too slowly.
    static let congested = BusError(
        name: "org.latchkey.Bus.Error.Congested", message: "the bus takes no messages at present")

    package static let unreadableArguments = BusError(
        name: "org.freedesktop.DBus.Error.InvalidArgs",
        message: "the arguments are too long or have the wrong type")

    /// Whether the bus or the called service is missing. Only for messages: the owner of a name can
    /// also send such an error.
    package var isAbsence: Bool {
        [
            "org.freedesktop.DBus.Error.ServiceUnknown",
            "org.freedesktop.DBus.Error.NameHasNoOwner", Self.noBus.name,
        ].contains(name)
    }
}

/// The credentials of a client of the bus.
package struct BusCredentials: Hashable, Sendable {
    /// The POSIX user of the connection.
    package let user: UInt32
    /// The process that connected, if the bus reports it. The process may have ended, and its id
    /// may belong to another process.
    package let process: Int32?

    package init(user: UInt32, process: Int32?) {
        self.user = user
        self.process = process
    }

    /// Reads the answer to `GetConnectionCredentials` (D-Bus Specification, section "Message Bus
    /// Messages"); nil if it has no user.
    init?(_ answer: [BusValue]) {
        guard let facts = answer.first?.dictionary, let user = facts["UnixUserID"]?.uint32 else {
            return nil
        }
        self.init(user: user, process: facts["ProcessID"]?.uint32.flatMap { Int32(exactly: $0) })
    }
}

/// A closure that is called exactly once. If it has no result at its end, it gets the error that
/// the connection is closed.
final class Once: Sendable {
    private let receive: Mutex<(@Sendable (Bus.Reply) -> Void)?>

    init(_ receive: @escaping @Sendable (Bus.Reply) -> Void) {
        self.receive = Mutex(receive)
    }

    func give(_ reply: Bus.Reply) {
        let receive = receive.withLock { receive in
            defer { receive = nil }
            return receive
        }
        receive?(reply)
    }

    deinit { give(.failure(.closed)) }
}
