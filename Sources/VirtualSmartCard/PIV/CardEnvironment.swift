public import FoundationEssentials

/// What a card takes from the world beside its commands.
public struct CardEnvironment: Sendable {
    let now: @Sendable () -> Date
    let randomBytes: @Sendable (_ count: Int) -> [UInt8]

    /// - Parameter randomBytes: Returns as many bytes as it is asked for.
    public init(now: @escaping @Sendable () -> Date, randomBytes: @escaping @Sendable (_ count: Int) -> [UInt8]) {
        self.now = now
        self.randomBytes = randomBytes
    }

    /// The system's clock and randomness.
    public static let system = CardEnvironment(
        now: { Date() },
        randomBytes: { count in
            var generator = SystemRandomNumberGenerator()
            return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        })
}
