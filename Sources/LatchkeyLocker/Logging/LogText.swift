internal import Latchkey

/// A message for the log. Only values that can't be secret can be put into one: words of the code, numbers, statuses and
/// error codes. A string that came from anywhere else does not compile.
struct LogText: ExpressibleByStringInterpolation {
    let text: String

    init(stringLiteral value: StaticString) { text = "\(value)" }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: StaticString) { text += "\(literal)" }
        mutating func appendInterpolation(_ number: Int) { text += "\(number)" }
        mutating func appendInterpolation(_ phase: SessionPhase) { text += phase.rawValue }
        mutating func appendInterpolation(_ cause: AuthSessionChange.Cause) { text += cause.rawValue }
        mutating func appendInterpolation(_ code: ErsteGroupAuthError.Code) { text += code.description }
        mutating func appendInterpolation(_ code: BackgroundAccessError.Code) { text += code.rawValue }
        mutating func appendInterpolation(_ action: LockerAssertion.Action) { text += action.rawValue }
    }
}
