internal import CSystemd
internal import Glibc

extension BusConnection {
    /// Hands the signals that fit a rule to `receive`, and no others.
    ///
    /// - Returns: What ``forget(_:)`` takes.
    func subscribe(_ rule: SignalRule, _ receive: @escaping (BusMessage) -> Void) throws(BusError) -> UInt64 {
        guard !isClosed else { throw .closed }
        if case .owner(let name) = rule.sender { try follow(name) }
        return try match(rule) { connection, signal in
            if rule.accepts(signal, owner: { connection.owners[$0] }) { receive(signal) }
        }
    }

    /// The unique name of the owner of a name, as of the messages that were handled until now; nil when it has none.
    func owner(of name: String) throws(BusError) -> String? {
        guard !isClosed else { throw .closed }
        try follow(name)
        return owners[name]
    }

    /// Knows the owner of a name from now on: the bus says so before it delivers anything of a new one.
    private func follow(_ name: String) throws(BusError) {
        guard followed.insert(name).inserted else { return }
        do throws(BusError) {
            let changes = SignalRule.ownerChanges(of: name)
            _ = try match(changes) { connection, signal in
                guard changes.accepts(signal, owner: { _ in nil }), signal.arguments.count == 3 else { return }
                connection.owners[name] = signal.arguments[2].string.flatMap { $0.isEmpty ? nil : $0 }
            }
            owners[name] = try askForOwner(of: name)
        } catch {
            followed.remove(name)
            throw error
        }
    }

    private func askForOwner(of name: String) throws(BusError) -> String? {
        var credentials: OpaquePointer?
        let code = sd_bus_get_name_creds(bus, name, UInt64(SD_BUS_CREDS_UNIQUE_NAME), &credentials)
        guard code != -ENXIO else { return nil }
        try Self.check(code, "asking who owns \(name)")
        defer { sd_bus_creds_unref(credentials) }
        var owner: UnsafePointer<CChar>?
        try Self.check(sd_bus_creds_get_unique_name(credentials, &owner), "asking who owns \(name)")
        return owner.map { String(cString: $0) }
    }
}
