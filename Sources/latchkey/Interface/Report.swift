import Latchkey

/// What a command brings to stdout.
protocol Report: Encodable, Sendable {
    /// For people and pipes; empty for nothing.
    var text: String { get }
    /// The same where text can be made to stand out.
    func text(in style: Style) -> String
    /// What stands on stdout instead of a JSON object even with `--json`: a key in a format of its own.
    var bareOutput: String? { get }
    /// What stands on stdout, byte for byte, instead of the text: a secret that somebody asked for. Never in JSON.
    var secretOutput: SecretBytes? { get }
}

extension Report {
    func text(in style: Style) -> String { text }
    var bareOutput: String? { nil }
    var secretOutput: SecretBytes? { nil }
}

/// A JSON member that is there also when it has no value: as `null`.
struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
    let value: Value?

    init(_ value: Value?) { self.value = value }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let value { try container.encode(value) } else { try container.encodeNil() }
    }
}
