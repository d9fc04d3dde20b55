/// Where random bytes come from. Tests pass a source of their own.
public struct RandomSource: Sendable {
    private let read: @Sendable (Int) -> [UInt8]

    /// - Parameter read: Returns exactly as many bytes as it is asked for.
    public init(_ read: @escaping @Sendable (Int) -> [UInt8]) {
        self.read = read
    }

    /// The system's cryptographic random number generator.
    public static let system = RandomSource { count in
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// `count` random bytes.
    public func bytes(_ count: Int) -> [UInt8] { read(count) }
}
