/// A part of Latchkey that reads untrusted bytes.
///
/// libFuzzer calls it with generated inputs (`scripts/fuzz`), and `FuzzCorpusTests` with the inputs
/// of the corpus.
struct FuzzTarget: Sendable {
    let name: String
    /// Returns for all inputs: a parser that traps, hangs or reads out of bounds is a finding.
    ///
    /// - Throws: ``Contradiction`` if a parser misreads its input.
    let run: @Sendable (_ input: [UInt8]) throws(Contradiction) -> Void

    /// A parser that does not read back the output of its own writer.
    struct Contradiction: Error, CustomStringConvertible {
        let description: String
    }

    static let all: [FuzzTarget] = [
        .tpmResponses, .tpmSessions, .tpmStructures, .tpmKeys, .tokenKeys, .certificates,
        .tokenURIs, .tokenAttributes,
        .jsonWebKeys, .requests, .idTokens, .attestations, .loginAnswers, .credentialAnswers,
        .lockerAnswers,
        .lockerTexts, .redirects, .names, .pinentryLines, .busMessages, .storedRows, .storeFiles,
        .cardCommands,
        .otherCardCommands, .attestationStatements, .attestationObjects, .hardwareCertificates,
        .activations,
        .attestationRecords, .endorsementFacts, .sshMessages, .sshFiles, .hidPackets, .ctapRequests,
    ]

    init(
        _ name: String, _ run: @escaping @Sendable (_ input: [UInt8]) throws(Contradiction) -> Void
    ) {
        self.name = name
        self.run = run
    }

    static func expect(_ isSo: Bool, _ otherwise: @autoclosure () -> String) throws(Contradiction) {
        guard !isSo else { return }
        throw Contradiction(description: otherwise())
    }
}
