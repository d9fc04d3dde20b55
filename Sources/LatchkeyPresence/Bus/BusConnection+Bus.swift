internal import Glibc

/// What the bus itself is asked.
///
/// Nothing here waits inside of libsystemd: while it waits for an answer it keeps whatever else comes in, and anybody may
/// send.
extension BusConnection {
    private static let bus = "org.freedesktop.DBus"

    /// Who a client is, by the bus's own word (D-Bus Specification, section "Message Bus Messages").
    func credentials(of client: String) async throws(BusError) -> BusCredentials {
        let facts = try await ask("GetConnectionCredentials", client).first?.dictionary
        guard let user = facts?["UnixUserID"]?.uint32 else { throw BusError(-EINVAL, "asking who \(client) is") }
        return BusCredentials(user: user, process: facts?["ProcessID"]?.uint32.flatMap { Int32(exactly: $0) })
    }

    /// Notes the unique name of the owner of a name in `owners`, before anything is handled that came after the answer.
    func learnOwner(of name: String) async throws(BusError) {
        do throws(BusError) {
            _ = try await ask("GetNameOwner", name) { [unowned self] answer in
                if case .success(let values) = answer { owners[name] = values.first?.string }
            }
        } catch {
            guard error.name == "\(Self.bus).Error.NameHasNoOwner" else { throw error }
        }
    }

    /// - Parameter note: Called with the answer on this thread, in the order in which the bus delivers.
    private func ask(
        _ method: String, _ name: String, _ note: @escaping (Bus.Reply) -> Void = { _ in }
    ) async throws(BusError) -> [BusValue] {
        let target = BusTarget(Self.bus, "/org/freedesktop/DBus", Self.bus, method)
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Bus.Reply, Never>) in
            let answer = Once { continuation.resume(returning: $0) }
            do throws(BusError) {
                try call(target, [.string(name)], timeout: Self.defaultTimeout) { reply in
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
