import NIOCore
import Synchronization

/// Bounds the open connections, per network and in all.
///
/// A connection above its network's limit is closed. When all places are taken, the connection that has been without a
/// request for the longest time makes room for a new one.
final class ConnectionLimiter: Sendable {
    private struct Entry {
        let channel: any Channel
        let network: String
        /// Since when the connection has no request; nil while it has one.
        var idleSince: NIODeadline?
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        var counts: [String: Int] = [:]
    }

    private let perAddress: Int
    private let total: Int
    private let exempt: Set<String>
    private let state = Mutex(State())

    /// - Parameters:
    ///   - perAddress: The most connections of one network: an IPv4 address, or the first 64 bits of an IPv6 address.
    ///   - total: The most connections.
    ///   - exempt: Networks without a limit of their own: proxies, whose connections are other clients'.
    init(perAddress: Int, total: Int, exempt: Set<String> = []) {
        self.perAddress = perAddress
        self.total = total
        self.exempt = exempt
    }

    /// Counts a new connection until it closes, or closes it.
    func admit(_ channel: any Channel, from network: String) {
        let (isAdmitted, evicted) = state.withLock { state -> (Bool, (any Channel)?) in
            guard exempt.contains(network) || state.counts[network, default: 0] < perAddress else {
                return (false, nil)
            }
            var evicted: (any Channel)?
            if state.entries.count >= total {
                let idle = state.entries.values.compactMap { entry in entry.idleSince.map { (entry, $0) } }
                guard let longest = idle.min(by: { $0.1 < $1.1 })?.0.channel else { return (false, nil) }
                Self.remove(longest, from: &state)
                evicted = longest
            }
            state.entries[ObjectIdentifier(channel)] = Entry(channel: channel, network: network, idleSince: .now())
            state.counts[network, default: 0] += 1
            return (true, evicted)
        }
        evicted?.close(promise: nil)
        guard isAdmitted else { return channel.close(promise: nil) }
        channel.closeFuture.whenComplete { [self] _ in state.withLock { Self.remove(channel, from: &$0) } }
    }

    /// A request has come on the connection.
    func begin(_ channel: any Channel) { setIdle(channel, since: nil) }

    /// The request was answered.
    func end(_ channel: any Channel) { setIdle(channel, since: .now()) }

    private func setIdle(_ channel: any Channel, since time: NIODeadline?) {
        state.withLock { $0.entries[ObjectIdentifier(channel)]?.idleSince = time }
    }

    private static func remove(_ channel: any Channel, from state: inout State) {
        guard let entry = state.entries.removeValue(forKey: ObjectIdentifier(channel)) else { return }
        let left = state.counts[entry.network, default: 1] - 1
        state.counts[entry.network] = left > 0 ? left : nil
    }
}
