/// Hardware that does not answer for a while, which a program can report to its user.
package enum HardwareWait {
    /// The hardware, as a sentence names it.
    package enum Party: String, Hashable, Sendable {
        case tpm = "the TPM"
        case token = "the token"
    }

    /// The time after which an operation counts as silent.
    private static let limit = Duration.seconds(2)

    /// Called on any thread when an operation of this task takes longer than two seconds. The time
    /// of prompts does not count.
    @TaskLocal package static var notice: (@Sendable (Party) -> Void)?

    /// Starts to wait for an operation.
    ///
    /// - Returns: The task to cancel when the operation ends; nil without a ``notice``.
    package static func begin(for party: Party) -> Task<Void, any Error>? {
        notice.map { notice in
            Task.detached {
                try await Task.sleep(for: limit)
                notice(party)
            }
        }
    }
}
