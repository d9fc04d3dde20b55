/// How a session takes part in one command, `TPMA_SESSION` (TPM 2.0 Part 2 section 8.4).
public struct SessionAttributes: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The session stays after the command. Without it, the TPM flushes it when the command succeeds.
    public static let continueSession = SessionAttributes(rawValue: 1 << 0)
    /// The command runs only if the session audited all since its start.
    public static let auditExclusive = SessionAttributes(rawValue: 1 << 1)
    /// The audit starts anew.
    public static let auditReset = SessionAttributes(rawValue: 1 << 2)
    /// The first parameter of the command is encrypted.
    public static let decrypt = SessionAttributes(rawValue: 1 << 5)
    /// The first parameter of the response is encrypted.
    public static let encrypt = SessionAttributes(rawValue: 1 << 6)
    /// The session audits the command.
    public static let audit = SessionAttributes(rawValue: 1 << 7)
}
