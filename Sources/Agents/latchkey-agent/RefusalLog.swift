import LatchkeyPlatform
import LatchkeySSH
import Logging
import Synchronization

/// Logs the reasons of refused requests and closed connections. Those of forwarded connections are
/// limited, because a server can cause any number of them.
final class RefusalLog: Sendable {
    private let log: Logger
    private let forwarded = Mutex(RateLimit<Bool>(60, in: .seconds(60)))

    init(_ log: Logger) { self.log = log }

    /// - Parameter key: The ID of the requested key, if there is one.
    func notice(_ reason: String, _ session: ClientSession, key: String? = nil) {
        guard !session.origin.isForwarded || forwarded.withLock({ $0.admit(true, at: .now) })
        else { return }
        var metadata: Logger.Metadata = ["client": "\(session.requester.description)"]
        if let key { metadata["key"] = "\(key)" }
        log.notice("\(reason)", metadata: metadata)
    }
}
