/// Signals that nobody but the right sender has sent.
extension BusConnection {
    /// Hands the signals that fit a rule to `receive`, and no others.
    ///
    /// - Returns: What ``forget(_:)`` takes.
    func subscribe(_ rule: SignalRule, _ receive: @escaping (BusMessage) -> Void) async throws(BusError) -> UInt64 {
        if case .owner(let name) = rule.sender { try await follow(name) }
        return try await installed(rule) { connection, signal in
            if rule.accepts(signal, owner: { connection.owners[$0] }) { receive(signal) }
        }
    }

    /// The unique name of the owner of a name, as of the messages that were handled until now; nil when it has none.
    func owner(of name: String) async throws(BusError) -> String? {
        try await follow(name)
        return owners[name]
    }

    /// Knows the owner of a name from now on: the bus says so before it delivers anything of a new one.
    private func follow(_ name: String) async throws(BusError) {
        guard !followed.contains(name) else { return }
        let changes = SignalRule.ownerChanges(of: name)
        // Two that follow the same name at once hear the same.
        let subscription = try await installed(changes) { connection, signal in
            guard changes.accepts(signal, owner: { _ in nil }), signal.arguments.count == 3 else { return }
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

    /// Waits until the bus delivers what a rule asks for.
    private func installed(
        _ rule: SignalRule, _ receive: @escaping (BusConnection, BusMessage) -> Void
    ) async throws(BusError) -> UInt64 {
        var subscription: UInt64?
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Bus.Reply, Never>) in
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
