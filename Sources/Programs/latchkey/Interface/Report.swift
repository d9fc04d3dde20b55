import Latchkey
import LatchkeyJOSE
import LatchkeyServices

/// A command's result on stdout.
protocol Report: Encodable, Sendable {
    /// The result without `--json`; empty for no output.
    var layout: Layout { get }
    /// The output that replaces the JSON object even with `--json`: a key in PEM.
    var bareOutput: String? { get }
    /// The secret that replaces the text, byte for byte. JSON never contains it.
    var secretOutput: SecretBytes? { get }
    /// The exit status of the command.
    var status: ExitStatus { get }
}

extension Report {
    /// The result for scripts, without `--json`.
    var text: String { layout.script }
    var bareOutput: String? { nil }
    var secretOutput: SecretBytes? { nil }
    var status: ExitStatus { .done }
}

/// A result in sentences.
protocol SentenceReport: Report {
    var text: String { get }
}

extension SentenceReport {
    var layout: Layout { Layout(text) }
}

/// A result of a few fields.
struct BriefReport: Report {
    private let fields: any Encodable & Sendable
    let layout: Layout
    let bareOutput: String?
    let secretOutput: SecretBytes?

    /// - Parameter fields: The JSON object.
    init(
        _ fields: any Encodable & Sendable, text: String, bareOutput: String? = nil,
        secretOutput: SecretBytes? = nil
    ) {
        (self.fields, layout) = (fields, Layout(text))
        (self.bareOutput, self.secretOutput) = (bareOutput, secretOutput)
    }

    /// - Parameter data: The text, for a program or a file: a key, a signature. A terminal does not
    ///   wrap it.
    init(_ fields: any Encodable & Sendable, data: String, bareOutput: String? = nil) {
        (self.fields, layout) = (fields, data.isEmpty ? Layout("") : .verbatim(data))
        (self.bareOutput, secretOutput) = (bareOutput, nil)
    }

    init(_ fields: [String: JSONValue], text: String, secretOutput: SecretBytes? = nil) {
        self.init(fields as any Encodable & Sendable, text: text, secretOutput: secretOutput)
    }

    func encode(to encoder: any Encoder) throws { try fields.encode(to: encoder) }
}

/// A JSON member that is `null` without a value, instead of absent.
struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
    let value: Value?

    init(_ value: Value?) { self.value = value }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let value { try container.encode(value) } else { try container.encodeNil() }
    }
}

/// The result of a command that deletes or replaces keys, and whether the hardware still has to
/// revoke them.
struct RevokingReport<Output: Report>: Report {
    private enum CodingKeys: CodingKey {
        case revocationPending
    }

    let output: Output
    let isRevocationPending: Bool

    var layout: Layout { output.layout }

    /// Writes the members of the command's own report, and `revocationPending` only if it is true.
    func encode(to encoder: any Encoder) throws {
        try output.encode(to: encoder)
        guard isRevocationPending else { return }
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(true, forKey: .revocationPending)
    }
}

extension CommandContext {
    /// The report of a command that has deleted or replaced keys. Warns if the hardware has not
    /// revoked them yet, so that copies of the store still work.
    func afterRevoking<Output: Report>(
        _ output: Output, in records: RecordContainer
    ) async -> RevokingReport<Output> {
        // A store that cannot be read may have a pending revocation.
        let isPending = (try? await records.hasPendingRevocations) ?? true
        if isPending {
            console.warn(
                "The hardware has not revoked the deleted or replaced keys yet, so copies of the store can still use them. "
                    + "Later commands try again; ‘latchkey doctor’ shows the cause.")
        }
        return RevokingReport(output: output, isRevocationPending: isPending)
    }
}
