/// A PIN or a PUK with its retry counter.
struct CountedSecret: Hashable {
    private(set) var value: [UInt8]
    private(set) var limit: Int
    private(set) var attemptsLeft: Int
    private let factoryValue: [UInt8]

    /// The length on the wire, in bytes; shorter ones are filled up with FF (SP 800-73-4 Part 2 section 2.4.3).
    static let paddedLength = 8
    private static let shortest = 6
    private static let filler: UInt8 = 0xFF

    /// - Parameter limit: How many wrong ones in a row block it, 1 to 255.
    init(_ text: String, limit: Int = 3) {
        factoryValue = Array(text.utf8)
        value = factoryValue
        self.limit = limit
        attemptsLeft = limit
    }

    var isDefault: Bool { value == factoryValue }
    var isBlocked: Bool { attemptsLeft == 0 }

    /// Compares, and counts.
    ///
    /// - Parameter candidate: The padded form, 8 bytes.
    /// - Throws: ``StatusWord/authenticationBlocked`` when no attempt is left, before or after;
    ///   ``StatusWord/wrongSecret(attemptsLeft:)`` otherwise; ``StatusWord/incorrectData`` for another length, which
    ///   is not counted.
    mutating func verify(_ candidate: ArraySlice<UInt8>) throws(StatusWord) {
        guard candidate.count == Self.paddedLength else { throw .incorrectData }
        guard !isBlocked else { throw .authenticationBlocked }
        guard Self.unpadded(candidate) == value else {
            attemptsLeft -= 1
            throw status
        }
        attemptsLeft = limit
    }

    /// What VERIFY without a PIN answers.
    var status: StatusWord { isBlocked ? .authenticationBlocked : .wrongSecret(attemptsLeft: attemptsLeft) }

    /// Replaces the value.
    ///
    /// - Parameter replacement: The padded form, 8 bytes.
    /// - Throws: ``StatusWord/incorrectData`` for fewer than six bytes without the padding.
    mutating func change(to replacement: ArraySlice<UInt8>) throws(StatusWord) {
        let unpadded = Self.unpadded(replacement)
        guard replacement.count == Self.paddedLength, unpadded.count >= Self.shortest else { throw .incorrectData }
        value = unpadded
    }

    /// Gives all attempts back.
    mutating func unblock() {
        attemptsLeft = limit
    }

    private static func unpadded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        Array(bytes[..<((bytes.lastIndex { $0 != filler }).map { $0 + 1 } ?? bytes.startIndex)])
    }
}
