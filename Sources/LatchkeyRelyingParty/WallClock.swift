public import FoundationEssentials

/// Where the time comes from. Tests pass a clock of their own.
public struct WallClock: Sendable {
    private let read: @Sendable () -> Date

    /// A clock that reads the time where it is told to.
    public init(_ read: @escaping @Sendable () -> Date) {
        self.read = read
    }

    /// The system's clock.
    public static let system = WallClock { Date() }

    /// The time now.
    public var now: Date { read() }

    /// The time now in whole seconds since 1970, rounded down: what JSON Web Tokens are compared with.
    public var seconds: Int { Int(now.timeIntervalSince1970.rounded(.down)) }
}
