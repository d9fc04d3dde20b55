internal import Synchronization

/// Hardware that does not answer for a while, which a program can report to its user.
package enum HardwareWait {
    /// The hardware, as a sentence names it.
    package enum Party: String, Hashable, Sendable {
        case tpm = "the TPM"
        case token = "the token"
    }

    /// The time after which an operation counts as silent.
    private static let limit = Duration.seconds(2)

    private static let notice = Mutex<(@Sendable (Party) -> Void)?>(nil)

    /// Sets what is called on any thread when an operation of this process takes longer than two
    /// seconds. The time of prompts does not count.
    package static func report(to notice: (@Sendable (Party) -> Void)?) {
        self.notice.withLock { $0 = notice }
    }

    /// Starts to wait for an operation.
    ///
    /// - Returns: The task to cancel when the operation ends; nil if nothing is called.
    package static func begin(for party: Party) -> Task<Void, any Error>? {
        notice.withLock(\.self).map { notice in
            Task.detached {
                try await Task.sleep(for: limit)
                notice(party)
            }
        }
    }
}
