/// A PIN, a PUK or a password with its retry counter.
struct CountedSecret: Hashable {
    /// The permitted lengths of a value, and its form in commands.
    struct Format: Hashable {
        /// The minimum length in bytes.
        let shortest: Int
        /// The maximum length in bytes.
        let longest: Int
        private let isPadded: Bool

        /// Six to eight bytes, in commands padded to eight with FF (SP 800-73-4 Part 2 section
        /// 2.4.3).
        static let padded = Format(shortest: 6, longest: 8, isPadded: true)

        /// At most 127 bytes without padding (OpenPGP application 3.4 section 4.3).
        static func password(shortest: Int) -> Format {
            Format(shortest: shortest, longest: 127, isPadded: false)
        }

        /// The value in a command.
        ///
        /// - Throws: ``StatusWord/incorrectData`` or ``StatusWord/wrongLength`` for a length that
        ///   is not permitted.
        fileprivate func value(in bytes: ArraySlice<UInt8>) throws(StatusWord) -> [UInt8] {
            guard isPadded else {
                guard (shortest...longest).contains(bytes.count) else { throw .wrongLength }
                return Array(bytes)
            }
            guard bytes.count == longest else { throw .incorrectData }
            return Array(
                bytes[..<((bytes.lastIndex { $0 != 0xFF }).map { $0 + 1 } ?? bytes.startIndex)])
        }
    }

    private(set) var value: [UInt8]
    private(set) var attemptsLeft: Int
    let limit: Int
    private let format: Format
    private let factoryValue: [UInt8]

    /// - Parameter limit: The number of consecutive wrong attempts that block it, 1 to 255.
    init(_ text: String, limit: Int = 3, format: Format = .padded) {
        factoryValue = Array(text.utf8)
        value = factoryValue
        attemptsLeft = limit
        self.limit = limit
        self.format = format
    }

    var isDefault: Bool { value == factoryValue }
    var isBlocked: Bool { attemptsLeft == 0 }

    /// Compares a value and counts the attempt.
    ///
    /// - Parameter candidate: The value, in its form in commands.
    /// - Throws: ``StatusWord/authenticationBlocked`` if no attempt is left before or after this
    ///   one; otherwise ``StatusWord/wrongSecret(attemptsLeft:)`` for a wrong value. A length that
    ///   is not permitted is an error, but does not count as an attempt.
    mutating func verify(_ candidate: ArraySlice<UInt8>) throws(StatusWord) {
        let candidate = try format.value(in: candidate)
        guard !isBlocked else { throw .authenticationBlocked }
        guard candidate == value else {
            attemptsLeft -= 1
            throw status
        }
        attemptsLeft = limit
    }

    /// The response to VERIFY without a PIN.
    var status: StatusWord {
        isBlocked ? .authenticationBlocked : .wrongSecret(attemptsLeft: attemptsLeft)
    }

    /// Verifies the old value, then replaces it.
    mutating func change(from old: ArraySlice<UInt8>, to replacement: ArraySlice<UInt8>)
        throws(StatusWord)
    {
        try verify(old)
        try reset(to: replacement)
    }

    /// Replaces the value and restores all attempts.
    ///
    /// - Parameter replacement: The value, in its form in commands.
    /// - Throws: ``StatusWord/incorrectData`` or ``StatusWord/wrongLength`` for a value that is too
    ///   short or too long.
    mutating func reset(to replacement: ArraySlice<UInt8>) throws(StatusWord) {
        let replacement = try format.value(in: replacement)
        guard replacement.count >= format.shortest else { throw .incorrectData }
        value = replacement
        attemptsLeft = limit
    }
}
