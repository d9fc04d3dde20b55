/// How much a message matters.
public enum LogLevel: Int, Hashable, Sendable, Comparable, CaseIterable {
    /// What a developer wants to see.
    case debug
    /// What happened in the ordinary course.
    case info
    /// What went on all the same.
    case warning
    /// What failed.
    case error

    public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}
