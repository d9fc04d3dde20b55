/// Something of Latchkey's that reads bytes from outside.
///
/// libFuzzer feeds it what it makes up (`scripts/fuzz`), and `FuzzCorpusTests` everything that was ever worth keeping.
struct FuzzTarget: Sendable {
    let name: String
    /// Whatever the bytes are, it returns: a parser that traps, hangs or reads out of bounds is a finding.
    ///
    /// - Throws: ``Contradiction`` where what was read is not what was there.
    let run: @Sendable (_ input: [UInt8]) throws(Contradiction) -> Void

    /// A parser that takes what its own writer writes for something else.
    struct Contradiction: Error, CustomStringConvertible {
        let description: String
    }

    static let all: [FuzzTarget] = [
        .tpmResponses, .tpmSessions, .tpmStructures, .tpmKeys, .tokenKeys, .certificates, .tokenURIs, .tokenAttributes,
        .jsonWebKeys, .requests, .idTokens, .attestations, .loginAnswers, .credentialAnswers, .lockerAnswers,
        .lockerTexts, .redirects, .names, .pinentryLines, .busMessages, .storedRows, .storeFiles, .cardCommands,
    ]

    init(_ name: String, _ run: @escaping @Sendable (_ input: [UInt8]) throws(Contradiction) -> Void) {
        self.name = name
        self.run = run
    }

    static func expect(_ isSo: Bool, _ otherwise: @autoclosure () -> String) throws(Contradiction) {
        guard !isSo else { return }
        throw Contradiction(description: otherwise())
    }
}
