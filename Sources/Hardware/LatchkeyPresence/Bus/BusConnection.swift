internal import CSystemd
internal import Glibc

/// One connection to a bus, used only on its thread.
final class BusConnection {
    /// The default timeout of a call, in microseconds.
    static let defaultTimeout: UInt64 = 10_000_000
    /// The maximum number of answers and signals that wait until the bus takes them. More are
    /// discarded: other programs decide how many answers there are, and can prevent the bus from
    /// taking any.
    private static let maximumQueued: UInt64 = 256

    /// nil after the connection is closed and its libsystemd objects are freed.
    private var handle: OpaquePointer?
    private var slots: [UInt64: OpaquePointer] = [:]
    private var calls: [UInt64: OpaquePointer] = [:]
    private var handlers: [UInt64: Handler] = [:]
    private var next: UInt64 = 0
    private let onClose: () -> Void

    /// The handle for every use of the connection. Throws after the connection is closed.
    private var bus: OpaquePointer {
        get throws(BusError) {
            guard let handle else { throw .closed }
            return handle
        }
    }

    /// The context of a C callback. It lives as long as its entry in `handlers`.
    private final class Handler {
        unowned let connection: BusConnection
        let id: UInt64
        let receive: (BusConnection, OpaquePointer) -> Void
        /// Called once with the result of installing the rule.
        var installed: Once?

        init(
            _ connection: BusConnection, _ id: UInt64,
            _ receive: @escaping (BusConnection, OpaquePointer) -> Void
        ) {
            self.connection = connection
            self.id = id
            self.receive = receive
        }
    }

    /// - Parameters:
    ///   - address: The bus's address; nil for the system bus, or the bus that
    ///     `DBUS_SYSTEM_BUS_ADDRESS` names.
    ///   - acceptsDescriptors: See ``Bus/system(at:acceptsDescriptors:onClose:)``.
    ///   - onClose: Called when the connection is closed, by either side.
    init(address: String?, acceptsDescriptors: Bool = false, onClose: @escaping () -> Void)
        throws(BusError)
    {
        let address = address ?? Self.systemAddress
        var bus: OpaquePointer?
        let code = Self.open(address: address, acceptsDescriptors, &bus)
        guard code != -ENOENT else { throw .noBus }
        guard code >= 0, let bus else { throw BusError(code, "connect to the system bus") }
        _ = sd_bus_set_method_call_timeout(bus, Self.defaultTimeout)
        handle = bus
        self.onClose = onClose
    }

    /// The address of the system bus (D-Bus Specification, section "Well-known Message Bus
    /// Instances").
    private static var systemAddress: String {
        getenv("DBUS_SYSTEM_BUS_ADDRESS").map { String(cString: $0) }
            ?? "unix:path=/run/dbus/system_bus_socket"
    }

    private static func open(
        address: String, _ acceptsDescriptors: Bool, _ bus: inout OpaquePointer?
    ) -> Int32 {
        var code = sd_bus_new(&bus)
        if code >= 0 { code = sd_bus_set_address(bus, address) }
        if code >= 0 { code = sd_bus_negotiate_fds(bus, acceptsDescriptors ? 1 : 0) }
        if code >= 0 { code = sd_bus_set_bus_client(bus, 1) }
        if code >= 0 { code = sd_bus_start(bus) }
        if code < 0 { bus = sd_bus_unref(bus) }
        return code
    }

    /// The name that the bus gave this connection. Waits for it if the bus has answered nothing yet.
    var uniqueName: String {
        get throws(BusError) {
            var name: UnsafePointer<CChar>?
            try BusError.check(sd_bus_get_unique_name(try bus, &name), "get the unique name")
            guard let name else { throw .closed }
            return String(cString: name)
        }
    }

    // MARK: Asking

    /// Sends a call. `receive` gets the answer once, on this thread.
    func call(
        _ target: BusTarget, _ arguments: [BusValue], timeout: UInt64,
        _ receive: @escaping (Bus.Reply) -> Void
    ) throws(BusError) {
        let bus = try bus
        var message: OpaquePointer?
        try BusError.check(
            sd_bus_message_new_method_call(
                bus, &message, target.destination, target.path, target.interface, target.member),
            "make a call")
        guard let message else { throw .closed }
        defer { _ = sd_bus_message_unref(message) }
        try BusCoding.append(arguments, to: message)
        let handler = handler { connection, reply in receive(Self.result(of: reply)) }
        var slot: OpaquePointer?
        let code = sd_bus_call_async(
            bus, &slot, message,
            { message, userdata, _ in BusConnection.deliver(message, userdata, isLast: true) },
            Unmanaged.passUnretained(handler).toOpaque(), timeout)
        guard code >= 0 else {
            handlers[handler.id] = nil
            throw BusError(code, "send a call")
        }
        slots[handler.id] = slot
    }

    // MARK: Listening

    /// The unique names of the owners of followed names.
    var owners: [String: String] = [:]
    /// The names whose owners are known.
    var followed: Set<String> = []

    /// Passes signals that seem to match a rule. libsystemd does not check the sender.
    ///
    /// - Parameter installed: Called once with the result of installing the rule.
    func match(
        _ rule: SignalRule, _ receive: @escaping (BusConnection, BusMessage) -> Void,
        installed: @escaping @Sendable (Bus.Reply) -> Void
    ) throws(BusError) -> UInt64 {
        let bus = try bus
        let handler = handler { connection, message in
            if let read = Self.message(message, BusCoding.read(message), ticket: nil) {
                receive(connection, read)
            }
        }
        let answer = Once(installed)
        handler.installed = answer
        var slot: OpaquePointer?
        let code = sd_bus_add_match_async(
            bus, &slot, rule.match,
            { message, userdata, _ in BusConnection.deliver(message, userdata, isLast: false) },
            { message, userdata, _ in BusConnection.confirm(message, userdata) },
            Unmanaged.passUnretained(handler).toOpaque())
        guard code >= 0 else {
            handlers[handler.id] = nil
            throw BusError(code, "subscribe to signals")
        }
        slots[handler.id] = slot
        return handler.id
    }

    func forget(_ id: UInt64) {
        if let slot = slots.removeValue(forKey: id) { _ = sd_bus_slot_unref(slot) }
        handlers[id] = nil
    }

    // MARK: Serving

    /// Passes all method calls to `receive`, also those on other objects: libsystemd would answer
    /// them without a limit.
    func serve(_ receive: @escaping (BusMessage) -> Bus.CallHandling) throws(BusError) {
        let bus = try bus
        let handler = handler { connection, call in connection.take(call, receive) }
        var slot: OpaquePointer?
        try BusError.check(
            sd_bus_add_filter(
                bus, &slot,
                { message, userdata, _ in
                    guard sd_bus_message_is_method_call(message, nil, nil) > 0 else { return 0 }
                    _ = BusConnection.deliver(message, userdata, isLast: false)
                    return 1
                }, Unmanaged.passUnretained(handler).toOpaque()), "serve calls")
        slots[handler.id] = slot
    }

    private func take(_ call: OpaquePointer, _ receive: (BusMessage) -> Bus.CallHandling) {
        next += 1
        let ticket = next
        let arguments = BusCoding.read(call, atMost: BusCoding.maximumCallBytes)
        guard let message = Self.message(call, arguments, ticket: ticket) else { return }
        switch receive(message) {
        case .answer(let result): try? answer(call, result)
        // A stored call has a limited length.
        case .later where message.isReadable: calls[ticket] = sd_bus_message_ref(call)
        case .later, .ignore: break
        }
    }

    func own(_ name: String) throws(BusError) {
        try BusError.check(sd_bus_request_name(try bus, name, 0), "own the name \(name)")
    }

    func reply(to ticket: UInt64, _ result: Bus.Reply) throws(BusError) {
        guard let call = calls.removeValue(forKey: ticket) else { return }
        defer { _ = sd_bus_message_unref(call) }
        try answer(call, result)
    }

    /// Ends a call without an answer.
    func drop(_ ticket: UInt64) {
        if let call = calls.removeValue(forKey: ticket) { _ = sd_bus_message_unref(call) }
    }

    private func answer(_ call: OpaquePointer, _ result: Bus.Reply) throws(BusError) {
        guard sd_bus_message_get_expect_reply(call) > 0 else { return }
        let bus = try bus
        try checkRoom()
        switch result {
        case .success(let values):
            var reply: OpaquePointer?
            try BusError.check(
                sd_bus_message_new_method_return(call, &reply), "answer a call")
            guard let reply else { throw .closed }
            defer { _ = sd_bus_message_unref(reply) }
            try BusCoding.append(values, to: reply)
            try BusError.check(sd_bus_send(bus, reply, nil), "answer a call")
        case .failure(let failure):
            var error = sd_bus_error()
            defer { sd_bus_error_free(&error) }
            _ = sd_bus_error_set(&error, failure.name, failure.message)
            try BusError.check(sd_bus_reply_method_error(call, &error), "answer a call")
        }
    }

    private func checkRoom() throws(BusError) {
        var count: UInt64 = 0
        try BusError.check(sd_bus_get_n_queued_write(try bus, &count), "send a message")
        guard count < Self.maximumQueued else { throw .congested }
    }

    /// Sends a signal to one client only.
    func signal(
        _ target: BusTarget, _ arguments: [BusValue]
    ) throws(BusError) {
        let bus = try bus
        try checkRoom()
        var message: OpaquePointer?
        try BusError.check(
            sd_bus_message_new_signal(
                bus, &message, target.path, target.interface, target.member),
            "make a signal")
        guard let message else { throw .closed }
        defer { _ = sd_bus_message_unref(message) }
        try BusCoding.append(arguments, to: message)
        try BusError.check(
            sd_bus_send_to(bus, message, target.destination, nil), "send a signal")
    }

    // MARK: The thread's part

    /// Handles one received message. If there are more, ``wait()`` does not wait, and the thread's
    /// other work is done before the next one.
    func process() {
        if let handle, sd_bus_process(handle, nil) < 0 { close() }
    }

    /// What to wait for: a descriptor, its events, and a deadline (nil for none).
    func wait() -> (descriptor: Int32, events: Int32, deadline: ContinuousClock.Instant?) {
        guard let bus = handle else { return (-1, 0, nil) }
        let descriptor = sd_bus_get_fd(bus)
        // The bus has ended. The next call of `process()` closes the connection.
        guard descriptor >= 0 else { return (-1, 0, .now) }
        var deadline: UInt64 = .max
        let hasDeadline = sd_bus_get_timeout(bus, &deadline) >= 0 && deadline != .max
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let passed = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1000
        let left = Duration.microseconds(deadline > passed ? deadline - passed : 0)
        return (
            descriptor, max(sd_bus_get_events(bus), 0), hasDeadline ? .now + left : nil
        )
    }

    func close() {
        guard let bus = handle else { return }
        handle = nil
        for slot in slots.values { _ = sd_bus_slot_unref(slot) }
        for call in calls.values { _ = sd_bus_message_unref(call) }
        slots = [:]
        calls = [:]
        handlers = [:]
        // Flushing a connection that was never established would block forever.
        if sd_bus_is_ready(bus) > 0 { _ = sd_bus_flush(bus) }
        _ = sd_bus_close_unref(bus)
        onClose()
    }

    private func handler(_ receive: @escaping (BusConnection, OpaquePointer) -> Void) -> Handler {
        next += 1
        let handler = Handler(self, next, receive)
        handlers[next] = handler
        return handler
    }

    private static func deliver(
        _ message: OpaquePointer?, _ userdata: UnsafeMutableRawPointer?, isLast: Bool
    ) -> Int32 {
        guard let message, let userdata else { return 0 }
        let handler = Unmanaged<Handler>.fromOpaque(userdata).takeUnretainedValue()
        handler.receive(handler.connection, message)
        if isLast { handler.connection.forget(handler.id) }
        return 0
    }

    private static func confirm(_ message: OpaquePointer?, _ userdata: UnsafeMutableRawPointer?)
        -> Int32
    {
        guard let message, let userdata else { return 0 }
        Unmanaged<Handler>.fromOpaque(userdata).takeUnretainedValue().installed?.give(
            result(of: message))
        return 1
    }

    private static func result(of reply: OpaquePointer) -> Bus.Reply {
        guard let error = sd_bus_message_get_error(reply), let name = error.pointee.name
        else {
            return .success(BusCoding.read(reply).values)
        }
        return .failure(
            BusError(
                name: String(cString: name),
                message: error.pointee.message.map { String(cString: $0) } ?? ""))
    }

    /// The maximum length of the path of an object on which a call is handled, in bytes.
    private static let longestPath = 255

    private static func message(
        _ message: OpaquePointer, _ arguments: BusCoding.Arguments, ticket: UInt64?
    ) -> BusMessage? {
        guard let sender = sd_bus_message_get_sender(message),
            let member = sd_bus_message_get_member(message)
        else {
            return nil
        }
        // The bus limits the length of the other names to 255 bytes.
        let path = sd_bus_message_get_path(message)
        let isShort = path.map { strnlen($0, longestPath + 1) <= longestPath } ?? true
        let isReadable = isShort && arguments.isWhole
        return BusMessage(
            sender: String(cString: sender),
            path: isShort ? path.map { String(cString: $0) } ?? "" : "",
            interface: sd_bus_message_get_interface(message).map { String(cString: $0) }
                ?? "",
            member: String(cString: member), arguments: arguments.values, ticket: ticket,
            isReadable: isReadable)
    }
}
