internal import Glibc
internal import Latchkey

/// Receives a locker's log messages. No message contains a secret.
public protocol Logger: Sendable {
    /// Handles one message. Called from any thread; must return quickly.
    func handleLogMessage(_ message: String, level: LogLevel)
}

/// The importance of a log message.
public enum LogLevel: Hashable, Sendable, Comparable, CaseIterable {
    /// Details for developers.
    case debug
    /// Normal events.
    case info
    /// Problems that did not stop the operation.
    case warning
    /// Failures.
    case error
}

/// A log message. It accepts only values that can't be secret: literals, numbers, statuses and
/// error codes. Interpolating any other string does not compile.
struct LogText: ExpressibleByStringInterpolation {
    let text: String

    init(stringLiteral value: StaticString) { text = "\(value)" }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {
            text.reserveCapacity(literalCapacity)
        }

        mutating func appendLiteral(_ literal: StaticString) { text += "\(literal)" }
        mutating func appendInterpolation(_ phase: SessionPhase) { text += phase.rawValue }
        mutating func appendInterpolation(_ cause: AuthSessionChange.Cause) { text += "\(cause)" }
        mutating func appendInterpolation(_ code: ErsteGroupAuthError.Code) {
            text += code.description
        }
        mutating func appendInterpolation(_ code: BackgroundAccessError.Code) {
            text += code.description
        }
        mutating func appendInterpolation(_ action: LockerAssertion.Action) {
            text += action.rawValue
        }
    }
}

/// The default log: standard error in debug builds, nothing in others.
struct StandardErrorLogger: Logger {
    func handleLogMessage(_ message: String, level: LogLevel) {
        #if DEBUG
            let line = Array("locker: \(message)\n".utf8)
            _ = write(STDERR_FILENO, line, line.count)
        #endif
    }
}
