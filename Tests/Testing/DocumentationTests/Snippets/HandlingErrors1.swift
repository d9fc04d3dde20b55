import Latchkey

/// An app's reaction to an error.
enum NextStep {
    case nothing
    case askAgain(message: String)
    case waitUntil(String)
    case setUpAgain(message: String)
    case show(message: String)
}

func nextStep(after error: KeystoreError) -> NextStep {
    switch error.code {
    case .cancelled: .nothing
    case .wrongProof where error.attemptsLeft != 0: .askAgain(message: error.description)
    case .lockedOut, .wrongProof: .waitUntil(error.lockedOutUntil.map { "\($0)" } ?? error.recovery)
    case .notFound, .invalidated, .wrongDevice: .setUpAgain(message: error.recovery)
    default: .show(message: "\(error.description) \(error.recovery)")
    }
}
