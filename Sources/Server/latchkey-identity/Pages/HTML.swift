/// HTML. Interpolated texts are escaped. Add `as HTML` to a literal in an interpolated condition, which
/// is a text otherwise.
struct HTML: Sendable, ExpressibleByStringInterpolation {
    let text: String

    init(stringLiteral value: String) { text = value }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) {}

        mutating func appendLiteral(_ literal: String) { text += literal }

        mutating func appendInterpolation(_ value: String) {
            for character in value.unicodeScalars {
                switch character {
                case "&": text += "&amp;"
                case "<": text += "&lt;"
                case ">": text += "&gt;"
                case "\"": text += "&quot;"
                case "'": text += "&#39;"
                default: text.unicodeScalars.append(character)
                }
            }
        }

        /// Adds parts without escaping; nil for nothing.
        mutating func appendInterpolation(_ parts: HTML?...) {
            for part in parts { text += part?.text ?? "" }
        }

        mutating func appendInterpolation(_ parts: [HTML]) {
            for part in parts { text += part.text }
        }
    }
}
