extension PresenceAuthority {
    /// The PIN that the person gives.
    ///
    /// - Parameter operation: What it is wanted for, as a verb phrase.
    /// - Throws: ``KeystoreError``: what ``pin(_:)`` throws, and `cancelled` when the person declines, or when nobody waits
    ///   for the answer any more.
    package func givenPIN(_ request: PINRequest, to operation: String) async throws(KeystoreError) -> PIN {
        switch try await pin(request) {
        case .declined(let reason): throw .cancelled(operation, reason)
        case .pin(let pin):
            guard !Task.isCancelled else { throw .cancelled(operation) }
            return pin
        }
    }
}
