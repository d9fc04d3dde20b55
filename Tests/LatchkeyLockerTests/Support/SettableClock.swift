import Foundation
import Synchronization

/// A clock that a test can set.
final class SettableClock: Sendable {
    private let ahead = Mutex<TimeInterval>(0)

    var now: Date { Date().addingTimeInterval(ahead.withLock { $0 }) }
    func advance(by seconds: TimeInterval) { ahead.withLock { $0 += seconds } }
}
