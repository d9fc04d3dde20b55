/// The two bytes at the end of every response (ISO/IEC 7816-4 section 5.1.3, SP 800-73-4 Part 2 section 3).
public struct StatusWord: RawRepresentable, Hashable, Sendable, Error {
    public let rawValue: UInt16

    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    /// Done.
    public static let success = StatusWord(rawValue: 0x9000)
    /// The data has the wrong length.
    public static let wrongLength = StatusWord(rawValue: 0x6700)
    /// A PIN, a touch or the management key is missing.
    public static let securityStatusNotSatisfied = StatusWord(rawValue: 0x6982)
    /// The PIN or PUK has no attempts left.
    public static let authenticationBlocked = StatusWord(rawValue: 0x6983)
    /// What comes first has not been done.
    public static let conditionsNotSatisfied = StatusWord(rawValue: 0x6985)
    /// The data is wrong.
    public static let incorrectData = StatusWord(rawValue: 0x6A80)
    /// There is no such file or application.
    public static let notFound = StatusWord(rawValue: 0x6A82)
    /// There is no room left.
    public static let noSpace = StatusWord(rawValue: 0x6A84)
    /// `P1` or `P2` is wrong.
    public static let incorrectParameters = StatusWord(rawValue: 0x6A86)
    /// There is no such key, PIN or object to refer to.
    public static let referenceNotFound = StatusWord(rawValue: 0x6A88)
    /// There is no such instruction.
    public static let unknownInstruction = StatusWord(rawValue: 0x6D00)
    /// There is no such class.
    public static let unknownClass = StatusWord(rawValue: 0x6E00)
    /// The card failed.
    public static let internalError = StatusWord(rawValue: 0x6F00)

    /// A wrong PIN or PUK; so many attempts are left (63CX).
    ///
    /// - Parameter attempts: At most 15 can be said.
    public static func wrongSecret(attemptsLeft attempts: Int) -> StatusWord {
        StatusWord(rawValue: 0x63C0 | UInt16(min(max(attempts, 0), 15)))
    }

    /// More of the response waits for GET RESPONSE (61XX).
    ///
    /// - Parameter count: How many bytes; 256 and more are said as 0.
    static func remaining(_ count: Int) -> StatusWord {
        StatusWord(rawValue: 0x6100 | (count < 256 ? UInt16(count) : 0))
    }

    /// Both bytes, high byte first.
    public var bytes: [UInt8] { [UInt8(rawValue >> 8), UInt8(rawValue & 0xFF)] }
}
