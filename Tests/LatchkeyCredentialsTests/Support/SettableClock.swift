import Foundation
import Synchronization

/// A clock that a test sets.
final class SettableClock: Sendable {
    private let ahead = Mutex<TimeInterval>(0)

    var now: @Sendable () -> Date {
        { [self] in Date().addingTimeInterval(ahead.withLock(\.self)) }
    }

    func advance(_ seconds: TimeInterval) {
        ahead.withLock { $0 += seconds }
    }
}
