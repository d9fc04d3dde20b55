internal import FoundationEssentials
internal import Latchkey

/// When a token is refreshed by itself. However short its life and whatever the server answers, attempts are never closer
/// than ``shortestDelay``.
struct RefreshSchedule: Sendable {
    /// Between two attempts, in seconds.
    static let shortestDelay: TimeInterval = 5
    /// After many failures, in seconds.
    static let longestBackoff: TimeInterval = 300
    /// The longest sleep, in seconds: clocks are set, machines suspended.
    static let longestDelay: TimeInterval = 3600

    private let grace: TimeInterval
    private var failures = 0

    init(grace: TimeInterval) { self.grace = max(0, grace) }

    /// What to do now.
    enum Step: Equatable {
        case refresh
        case sleep(TimeInterval)
        case stop
    }

    /// What to do with a token as it is stored.
    func step(for token: Token, now: Date) -> Step {
        guard let end = token.expiresAt, let life = token.expiresIn else { return .stop }
        // A token that lives shorter than the grace is refreshed after half of its life.
        let due = end.addingTimeInterval(-min(grace, life / 2)).timeIntervalSince(now)
        guard due > 0 else { return .refresh }
        return .sleep(min(due, Self.longestDelay))
    }

    /// How long to wait after an attempt.
    mutating func succeeded() -> TimeInterval {
        failures = 0
        return Self.shortestDelay
    }

    /// How long to wait after a failure; nil when trying again can't help.
    mutating func failed(_ error: any Error) -> TimeInterval? {
        guard Self.mayPass(error) else { return nil }
        failures += 1
        return min(Self.shortestDelay * pow2(failures - 1), Self.longestBackoff)
    }

    private func pow2(_ exponent: Int) -> TimeInterval { TimeInterval(1 << min(exponent, 16)) }

    /// Networks and servers recover. A token that is taken back, or a person who is missing, does not.
    private static func mayPass(_ error: any Error) -> Bool {
        switch error {
        case let error as CredentialError:
            return error.code == .unexpectedStatus || error.code == .invalidResponse
        case let error as KeystoreError:
            return error.code == .unavailable || error.code == .transient || error.code == .failed
        default: return false
        }
    }
}
