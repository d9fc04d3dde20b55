import Foundation
import Synchronization

/// This machine's clock, which a test may set.
final class SettableClock: Sendable {
    private let ahead = Mutex<TimeInterval>(0)

    var now: Date { Date().addingTimeInterval(ahead.withLock { $0 }) }
    func advance(by seconds: TimeInterval) { ahead.withLock { $0 += seconds } }
}
