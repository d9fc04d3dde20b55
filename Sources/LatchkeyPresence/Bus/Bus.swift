internal import CSystemd
internal import Glibc

/// A connection to the system bus, on a thread of its own. It is closed when the last reference goes.
package actor Bus {
    private let thread: BusThread
    private var connection: BusConnection?

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    private init() {
        thread = BusThread()
    }

    deinit { thread.end() }

    /// Connects to a system bus.
    ///
    /// - Parameters:
    ///   - address: Nil for the machine's, or what `DBUS_SYSTEM_BUS_ADDRESS` names.
    ///   - onClose: Called when the connection is lost or closed.
    package static func system(
        at address: String? = nil, onClose: @escaping @Sendable () -> Void = {}
    ) async throws(BusError) -> Bus {
        let bus = Bus()
        try await bus.connect(address, onClose)
        return bus
    }

    private func connect(_ address: String?, _ onClose: @escaping @Sendable () -> Void) throws(BusError) {
        let connection = try BusConnection(address: address)
        connection.onClose = onClose
        thread.pump = connection.pump
        self.connection = connection
    }

    /// Calls a method and waits for its answer.
    ///
    /// - Parameter timeout: At least a millisecond.
    package func call(
        _ target: BusTarget, _ arguments: [BusValue] = [], timeout: Duration = .seconds(10)
    ) async throws(BusError) -> [BusValue] {
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Reply, Never>) in
            send(target, arguments, timeout: timeout) { continuation.resume(returning: $0) }
        }
        return try result.get()
    }

    package typealias Reply = Result<[BusValue], BusError>

    /// Calls a method. `receive` gets the answer, once, in the order in which the bus delivers answers and signals.
    package func send(
        _ target: BusTarget, _ arguments: [BusValue] = [], timeout: Duration = .seconds(10),
        _ receive: @escaping @Sendable (Reply) -> Void
    ) {
        let microseconds = UInt64(max(1, timeout / .milliseconds(1))) * 1000
        let answer = Once(receive)
        do throws(BusError) {
            guard let connection else { throw .closed }
            // When the connection is lost, nobody else will say so.
            try connection.call(target, arguments, timeout: microseconds) { answer.give($0) }
        } catch {
            answer.give(.failure(error))
        }
    }

    /// Hands the signals that fit a rule to `receive`, in order, and none that another program has made up.
    ///
    /// - Returns: What ``forget(_:)`` takes.
    package func subscribe(
        _ rule: SignalRule, _ receive: @escaping @Sendable (BusMessage) -> Void
    ) async throws(BusError) -> UInt64 {
        guard let connection else { throw .closed }
        return try await connection.subscribe(rule) { receive($0) }
    }

    package func forget(_ subscription: UInt64) { connection?.forget(subscription) }

    /// The unique name of the owner of a name; nil when it has none. A change of owner is known here before anything
    /// that the new one says.
    package func owner(of name: String) async throws(BusError) -> String? {
        guard let connection else { throw .closed }
        return try await connection.owner(of: name)
    }

    /// Whether the bus says that a name has no owner, and that no service can be started for it.
    package func isUnserved(_ name: String) async throws(BusError) -> Bool {
        guard let connection else { throw .closed }
        return try await connection.isUnserved(name)
    }

    /// Hands all method calls on an object to `receive`, in order.
    ///
    /// - Parameter receive: Returns the answer, or nil for a call that ``reply(to:_:)`` will answer.
    package func serve(_ path: String, _ receive: @escaping @Sendable (BusMessage) -> Reply?) throws(BusError) {
        guard let connection else { throw .closed }
        try connection.serve(path) { receive($0) }
    }

    package func own(_ name: String) throws(BusError) {
        guard let connection else { throw .closed }
        try connection.own(name)
    }

    /// Answers a call. A second answer is no answer.
    package func reply(to call: BusMessage, _ result: Reply) throws(BusError) {
        guard let connection, let ticket = call.ticket else { throw .closed }
        try connection.reply(to: ticket, result)
    }

    /// Sends a signal to one client.
    package func signal(_ target: BusTarget, _ arguments: [BusValue]) throws(BusError) {
        guard let connection else { throw .closed }
        try connection.signal(target, arguments)
    }

    /// Asks the bus who a client is. `receive` gets the answer once, in the order in which the bus delivers answers and
    /// signals.
    package func askCredentials(
        of client: String, _ receive: @escaping @Sendable (Result<BusCredentials, BusError>) -> Void
    ) {
        send(BusConnection.bus("GetConnectionCredentials"), [.string(client)]) { answer in
            receive(
                answer.flatMap { (values) -> Result<BusCredentials, BusError> in
                    BusCredentials(values).map { .success($0) }
                        ?? .failure(BusError(-EINVAL, "asking who \(client) is"))
                })
        }
    }

    /// Tells systemd that the service is ready. Does nothing where no systemd asked for it.
    package nonisolated static func notifyReady() { sd_notify(0, "READY=1") }
}
