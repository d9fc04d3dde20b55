package import FoundationEssentials

/// A source of the time. Tests replace it.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Date

    package init(_ read: @escaping @Sendable () -> Date) {
        self.read = read
    }

    /// The system's clock.
    package static let system = WallClock { Date() }

    /// The current time.
    package var now: Date { read() }

    /// The current time in whole seconds since 1970, rounded down, as in JSON Web Tokens.
    package var seconds: Int { Int(now.timeIntervalSince1970.rounded(.down)) }
}

/// A source of random bytes. Tests replace it.
package struct RandomSource: Sendable {
    private let read: @Sendable (Int) -> [UInt8]

    /// - Parameter read: Returns exactly the requested number of bytes.
    package init(_ read: @escaping @Sendable (Int) -> [UInt8]) {
        self.read = read
    }

    /// The system's cryptographic random number generator.
    package static let system = RandomSource { count in
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// Returns `count` random bytes.
    package func bytes(_ count: Int) -> [UInt8] { read(count) }
}
