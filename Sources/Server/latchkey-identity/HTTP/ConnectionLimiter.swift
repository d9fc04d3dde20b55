import Glibc
import Hummingbird
import NIOCore
import Synchronization

/// Limits the open connections, per network and in total.
///
/// A connection above its network's limit is closed. At the total limit, a new connection replaces
/// the one that has been idle for the longest time.
final class ConnectionLimiter: Sendable {
    private struct Entry {
        let channel: any Channel
        let network: String
        /// The time from which the connection has no request; nil while it has one.
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
    ///   - perAddress: The maximum of one network: an IPv4 address, or the first 64 bits of an IPv6
    ///     address.
    ///   - total: The maximum of all networks.
    ///   - exempt: Networks without a per-network limit: proxies, whose connections belong to other
    ///     clients.
    init(perAddress: Int, total: Int, exempt: Set<String> = []) {
        self.perAddress = perAddress
        self.total = total
        self.exempt = exempt
    }

    /// Counts a new connection until it closes, or closes it if a limit is reached.
    func admit(_ channel: any Channel, from network: String) {
        let (isAdmitted, evicted) = state.withLock { state -> (Bool, (any Channel)?) in
            guard exempt.contains(network) || state.counts[network, default: 0] < perAddress else {
                return (false, nil)
            }
            var evicted: (any Channel)?
            if state.entries.count >= total {
                let idle = state.entries.values.compactMap { entry in
                    entry.idleSince.map { (entry, $0) }
                }
                guard let longest = idle.min(by: { $0.1 < $1.1 })?.0.channel else {
                    return (false, nil)
                }
                Self.remove(longest, from: &state)
                evicted = longest
            }
            state.entries[ObjectIdentifier(channel)] = Entry(
                channel: channel, network: network, idleSince: .now())
            state.counts[network, default: 0] += 1
            return (true, evicted)
        }
        evicted?.close(promise: nil)
        guard isAdmitted else { return channel.close(promise: nil) }
        channel.closeFuture.whenComplete { [self] _ in
            state.withLock { Self.remove(channel, from: &$0) }
        }
    }

    /// Records whether the connection has a request.
    func setBusy(_ isBusy: Bool, _ channel: any Channel) {
        state.withLock { $0.entries[ObjectIdentifier(channel)]?.idleSince = isBusy ? nil : .now() }
    }

    private static func remove(_ channel: any Channel, from state: inout State) {
        guard let entry = state.entries.removeValue(forKey: ObjectIdentifier(channel)) else {
            return
        }
        let left = state.counts[entry.network, default: 1] - 1
        state.counts[entry.network] = left > 0 ? left : nil
    }
}

/// Registers each new connection with the limiter.
final class ConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let limiter: ConnectionLimiter

    init(limiter: ConnectionLimiter) {
        self.limiter = limiter
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        let address = context.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
        limiter.admit(context.channel, from: address?.network ?? "")
    }
}

/// Reports requests to the limiter, and closes a connection whose request takes longer than
/// ``longestRequest``, because a client can send a body arbitrarily slowly.
struct ConnectionMiddleware: RouterMiddleware {
    static let longestRequest: TimeAmount = .seconds(30)

    let limiter: ConnectionLimiter

    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        let channel = context.channel
        limiter.setBusy(true, channel)
        let deadline = channel.eventLoop.scheduleTask(in: Self.longestRequest) {
            channel.close(promise: nil)
        }
        defer {
            deadline.cancel()
            limiter.setBusy(false, channel)
        }
        return try await next(request, context)
    }
}

/// The process's limit of open files (`RLIMIT_NOFILE`). Each connection uses one.
enum OpenFiles {
    /// The number of files for other uses: the database, logs, and connections that are about to be
    /// refused.
    static let reserve = 128

    /// Raises the limit for this number of connections.
    ///
    /// - Throws: ``ConfigurationError`` if the hard limit is too low.
    static func allow(connections: Int) throws(ConfigurationError) {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        let needed = rlim_t(connections + reserve)
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < needed else { return }
        limit.rlim_cur = needed
        guard needed <= limit.rlim_max, setrlimit(resource, &limit) == 0 else {
            throw ConfigurationError(
                "connections.total: \(connections) connections need \(needed) open files, and this process may have "
                    + "\(limit.rlim_max)",
                "Raise the limit (ulimit -n, LimitNOFILE=) or lower connections.total.")
        }
    }
}
