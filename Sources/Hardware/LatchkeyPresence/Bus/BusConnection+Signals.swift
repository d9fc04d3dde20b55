/// Signals of the expected sender only.
extension BusConnection {
    /// Passes the signals that match a rule to `receive`.
    ///
    /// - Returns: The subscription, for ``forget(_:)``.
    func subscribe(_ rule: SignalRule, _ receive: @escaping (BusMessage) -> Void)
        async throws(BusError) -> UInt64
    {
        if rule.sender != Self.bus { try await follow(rule.sender) }
        return try await installed(rule) { connection, signal in
            if rule.accepts(signal, owner: { connection.owners[$0] }) { receive(signal) }
        }
    }

    /// The unique name of the owner of a name after the messages that were handled until now; nil
    /// if the name has no owner.
    func owner(of name: String) async throws(BusError) -> String? {
        try await follow(name)
        return owners[name]
    }

    /// Follows the owner of a name: the bus reports a change before it delivers any message of the
    /// new owner.
    private func follow(_ name: String) async throws(BusError) {
        guard !followed.contains(name) else { return }
        let changes = SignalRule.ownerChanges(of: name)
        // Concurrent subscriptions to the same name get the same signals.
        let subscription = try await installed(changes) { connection, signal in
            guard changes.accepts(signal, owner: { _ in nil }), signal.arguments.count == 3 else {
                return
            }
            connection.owners[name] = signal.arguments[2].string.flatMap { $0.isEmpty ? nil : $0 }
        }
        do throws(BusError) {
            try await learnOwner(of: name)
        } catch {
            forget(subscription)
            throw error
        }
        followed.insert(name)
    }

    /// Waits until the bus has installed the rule.
    private func installed(
        _ rule: SignalRule, _ receive: @escaping (BusConnection, BusMessage) -> Void
    ) async throws(BusError) -> UInt64 {
        var subscription: UInt64?
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Bus.Reply, Never>) in
            do throws(BusError) {
                subscription = try match(rule, receive) { continuation.resume(returning: $0) }
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        do throws(BusError) {
            _ = try result.get()
        } catch {
            if let subscription { forget(subscription) }
            throw error
        }
        guard let subscription else { throw .closed }
        return subscription
    }
}

/// Calls to the bus itself.
///
/// These calls are asynchronous. A blocking libsystemd call stores all other incoming messages
/// while it waits, and any program can send messages.
extension BusConnection {
    /// The message bus itself. No client can own its name.
    static let bus = "org.freedesktop.DBus"

    /// A method of the bus (D-Bus Specification, section "Message Bus Messages").
    static func bus(_ method: String) -> BusTarget {
        BusTarget(bus, "/org/freedesktop/DBus", bus, method)
    }

    /// Whether the bus reports that a name has no owner and cannot be activated.
    ///
    /// Both are checked: dbus-broker answers a call to a service that failed to start like a call
    /// to a name without owner.
    func isUnserved(_ name: String) async throws(BusError) -> Bool {
        guard try await ask("NameHasOwner", [.string(name)]).first?.bool == false,
            let startable = try await ask("ListActivatableNames", []).first?.strings
        else { return false }
        return !startable.contains(name)
    }

    /// Stores the unique name of a name's owner in `owners`, before any message after the answer is
    /// handled.
    func learnOwner(of name: String) async throws(BusError) {
        do throws(BusError) {
            _ = try await ask("GetNameOwner", [.string(name)]) { [unowned self] answer in
                if case .success(let values) = answer { owners[name] = values.first?.string }
            }
        } catch {
            guard error.name == "\(Self.bus).Error.NameHasNoOwner" else { throw error }
        }
    }

    /// - Parameter note: Called with the answer on this thread, in the bus's order.
    private func ask(
        _ method: String, _ arguments: [BusValue], _ note: @escaping (Bus.Reply) -> Void = { _ in }
    ) async throws(BusError) -> [BusValue] {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Bus.Reply, Never>) in
            let answer = Once { continuation.resume(returning: $0) }
            do throws(BusError) {
                try call(Self.bus(method), arguments, timeout: Self.defaultTimeout) { reply in
                    note(reply)
                    answer.give(reply)
                }
            } catch {
                answer.give(.failure(error))
            }
        }
        return try result.get()
    }
}

/// A rule for accepted signals.
///
/// The bus delivers every message that is addressed to a client, with any sender, path, interface
/// and member. A match rule only adds messages and does not filter. So each received signal is
/// checked against the rule.
package struct SignalRule: Hashable, Sendable {
    /// The name whose owner at the time of the signal is the sender.
    package let sender: String
    /// Nil for any object of the sender.
    package let path: String?
    package let interface: String
    package let member: String
    /// The first argument; nil for any.
    package let argument: String?

    package init(
        from sender: String, path: String? = nil, interface: String, member: String,
        argument: String? = nil
    ) {
        self.sender = sender
        self.path = path
        self.interface = interface
        self.member = member
        self.argument = argument
    }

    /// `NameOwnerChanged(name, old owner, new owner)` of one name, or of all (D-Bus Specification,
    /// section "Message Bus Messages").
    package static func ownerChanges(of name: String? = nil) -> SignalRule {
        SignalRule(
            from: BusConnection.bus, path: "/org/freedesktop/DBus", interface: BusConnection.bus,
            member: "NameOwnerChanged", argument: name)
    }

    /// The match rule for the bus.
    var match: String {
        "type='signal',sender='\(sender)',interface='\(interface)',member='\(member)'"
            + (path.map { ",path='\($0)'" } ?? "") + (argument.map { ",arg0='\($0)'" } ?? "")
    }

    /// Whether a signal matches the rule.
    ///
    /// - Parameter owner: Returns the unique name of a name's owner, if there is one.
    func accepts(_ signal: BusMessage, owner: (String) -> String?) -> Bool {
        // The bus's signals have its name as their sender.
        let expected = sender == BusConnection.bus ? sender : owner(sender)
        return signal.sender == expected && signal.interface == interface && signal.member == member
            && (path == nil || signal.path == path)
            && (argument == nil || signal.arguments.first?.string == argument)
    }
}
