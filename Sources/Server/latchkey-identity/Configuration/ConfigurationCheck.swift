import FoundationEssentials
import Latchkey
import LatchkeyJOSE

/// The mistakes of a configuration file, which are reported together, each with its place: the names
/// of members and the indices of lists that lead to it.
struct ConfigurationCheck {
    /// The permitted values of texts, by their places without indices.
    let choices: [String: [String]]
    private var mistakes: [(place: String, text: String)] = []

    init(choices: [String: [String]]) { self.choices = choices }

    /// Records a mistake unless the condition holds, or the place or one that contains it has a
    /// mistake already.
    mutating func require(
        _ condition: Bool, _ place: String, _ cause: String,
        _ recovery: String = "Correct the configuration."
    ) {
        guard !condition, !mistakes.contains(where: { "\(place).".hasPrefix("\($0.place).") })
        else { return }
        mistakes.append((place, "\(place): \(cause). \(recovery)"))
    }

    /// - Throws: ``ConfigurationError`` with one line for each mistake.
    func end() throws(ConfigurationError) {
        guard mistakes.isEmpty else {
            throw ConfigurationError(sentences: mistakes.map(\.text).joined(separator: "\n"))
        }
    }

    /// The settings of a part of the file, without members that are null, unknown or have another
    /// form: an unknown name or value would leave a requirement off.
    ///
    /// - Parameters:
    ///   - known: A value with all members. Its arrays contain one element, which has all members
    ///     of each element.
    ///   - path: The names and indices that lead to the part.
    /// - Returns: Settings that can be decoded. Where a mistake was recorded, they have the value of
    ///   `known`.
    mutating func settings(_ given: JSONValue, like known: JSONValue, at path: [String] = [])
        -> JSONValue
    {
        let place = path.joined(separator: ".")
        switch (given, known) {
        case (.object(let members), .object(let settings)):
            var found: [String: JSONValue] = [:]
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                guard let setting = settings[name] else {
                    let names = settings.keys.sorted().joined(separator: ", ")
                    require(
                        false, (path + [name]).joined(separator: "."), "unknown member",
                        "Use one of: \(names).")
                    continue
                }
                guard value != .null else { continue }
                found[name] = self.settings(value, like: setting, at: path + [name])
            }
            return .object(found)
        case (.array(let elements), .array(let settings)):
            return .array(
                elements.indices.map { index in
                    let element = path + [String(index)]
                    require(
                        !elements[..<index].contains(elements[index]),
                        element.joined(separator: "."), "repeats another element of the list",
                        "Remove it.")
                    return settings.first.map {
                        self.settings(elements[index], like: $0, at: element)
                    } ?? elements[index]
                })
        case (.string(let text), .string):
            let choices = choices[path.filter { Int($0) == nil }.joined(separator: ".")] ?? [text]
            require(
                choices.contains(text), place,
                "\(String(quoted: text, limit: 100)) is not one of \(choices.joined(separator: ", "))"
            )
            return choices.contains(text) ? given : known
        case (.bool, .bool): return given
        case (.number(let number), .number) where Int(exactly: number) != nil: return given
        default:
            require(false, place, "must be \(known.kind), and is \(given.kind)")
            return known
        }
    }
}

extension JSONValue {
    /// What the value is. A number in a configuration must be an integer.
    var kind: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .number(let number): Int(exactly: number) == nil ? "another number" : "an integer"
        case .integer: "too large a number"
        case .string: "a text"
        case .array: "a list"
        case .object: "an object"
        }
    }

    /// This value with the members of `other`, in objects at any depth.
    func replacing(with other: JSONValue) -> JSONValue {
        guard case .object(let old) = self, case .object(let new) = other else { return other }
        return .object(old.merging(new) { $0.replacing(with: $1) })
    }
}

/// An unusable configuration, database or address.
struct ConfigurationError: Error, CustomStringConvertible {
    /// The cause, and the next step in one imperative sentence; one line for each of several causes.
    let description: String
    /// Whether another attempt can succeed without a change by the operator.
    var isTemporary = false

    init(_ cause: String, _ recovery: String = "Correct the configuration.") {
        description = "\(cause). \(recovery)"
    }

    /// Uses a text that contains the cause and the next step.
    init(sentences: String) { description = sentences }
}
