/// How one look at a finger ended.
enum VerificationOutcome: Hashable, Sendable {
    case matched
    case notMatched
    case cancelled
    case late
    case notEnrolled
    /// Another program holds the reader.
    case busy
    /// The reader, or fprintd, failed.
    case failed(String)
}
