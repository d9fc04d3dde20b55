/// How much a message matters.
public enum LogLevel: Int, Hashable, Sendable, Comparable, CaseIterable {
    case debug
    case info
    case warning
    case error

    public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}
