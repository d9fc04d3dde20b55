/// What the bus itself is asked.
///
/// Nothing here waits inside of libsystemd: while it waits for an answer it keeps whatever else comes in, and anybody may
/// send.
extension BusConnection {
    private static let bus = "org.freedesktop.DBus"

    /// A method of the bus itself (D-Bus Specification, section "Message Bus Messages").
    static func bus(_ method: String) -> BusTarget { BusTarget(bus, "/org/freedesktop/DBus", bus, method) }

    /// Whether the bus says that a name has no owner, and that no service can be started for it.
    ///
    /// Both are asked: dbus-broker answers a call to a service that failed to start like a call to a name without owner.
    func isUnserved(_ name: String) async throws(BusError) -> Bool {
        guard try await ask("NameHasOwner", [.string(name)]).first?.bool == false,
            let startable = try await ask("ListActivatableNames", []).first?.strings
        else { return false }
        return !startable.contains(name)
    }

    /// Notes the unique name of the owner of a name in `owners`, before anything is handled that came after the answer.
    func learnOwner(of name: String) async throws(BusError) {
        do throws(BusError) {
            _ = try await ask("GetNameOwner", [.string(name)]) { [unowned self] answer in
                if case .success(let values) = answer { owners[name] = values.first?.string }
            }
        } catch {
            guard error.name == "\(Self.bus).Error.NameHasNoOwner" else { throw error }
        }
    }

    /// - Parameter note: Called with the answer on this thread, in the order in which the bus delivers.
    private func ask(
        _ method: String, _ arguments: [BusValue], _ note: @escaping (Bus.Reply) -> Void = { _ in }
    ) async throws(BusError) -> [BusValue] {
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Bus.Reply, Never>) in
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
