import Latchkey

/// What a command brings that drops keys which the hardware may have to take back, and whether it still has to.
struct RevokingReport<Output: Report>: Report {
    private enum CodingKeys: CodingKey {
        case revocationPending
    }

    let output: Output
    let isRevocationPending: Bool

    var text: String { output.text }

    /// The members of the command's own report, and `revocationPending`, only where something is.
    func encode(to encoder: any Encoder) throws {
        try output.encode(to: encoder)
        guard isRevocationPending else { return }
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(true, forKey: .revocationPending)
    }
}

extension CommandContext {
    /// The report of a command that has dropped keys. Warns where the hardware has not taken back what it could: the command
    /// has done its work then, and copies of the store live on.
    func afterRevoking<Output: Report>(
        _ output: Output, in records: RecordContainer
    ) async -> RevokingReport<Output> {
        // A store that can't be read may have something to revoke.
        let isPending = (try? await records.hasPendingRevocations) ?? true
        if isPending {
            console.warn(
                "The hardware has not taken back yet what was deleted or replaced: copies of the store still open it. "
                    + "It is tried again later; ‘latchkey doctor’ says what may be in the way.")
        }
        return RevokingReport(output: output, isRevocationPending: isPending)
    }
}
