import LatchkeySSH
import Logging
import Synchronization

/// Logs the reasons of refused requests. Those of forwarded connections are limited, because a
/// server can cause any number of them.
final class RefusalLog: Sendable {
    /// The maximum number of messages about forwarded connections in a minute.
    private static let perMinute = 60

    private let log: Logger
    private let minute = Mutex<(start: ContinuousClock.Instant, count: Int)>((.now, 0))

    init(_ log: Logger) { self.log = log }

    /// - Parameter key: The ID of the requested key, if there is one.
    func notice(_ reason: String, _ session: ClientSession, key: String? = nil) {
        let count = session.origin.isForwarded ? nextCount() : 1
        guard count <= Self.perMinute else { return }
        var metadata: Logger.Metadata = ["client": "\(session.requester.description)"]
        if let key { metadata["key"] = "\(key)" }
        log.notice("\(reason)", metadata: metadata)
        guard count == Self.perMinute else { return }
        log.notice("more refusals of forwarded connections in this minute are not logged")
    }

    private func nextCount() -> Int {
        minute.withLock { minute in
            if minute.start.duration(to: .now) > .seconds(60) { minute = (.now, 0) }
            minute.count += 1
            return minute.count
        }
    }
}
