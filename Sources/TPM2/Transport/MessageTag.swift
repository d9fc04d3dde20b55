/// The tags of commands and responses, `TPM_ST` (TPM 2.0 Part 2 section 6.9).
enum MessageTag {
    static let noSessions: UInt16 = 0x8001
    static let sessions: UInt16 = 0x8002
}
