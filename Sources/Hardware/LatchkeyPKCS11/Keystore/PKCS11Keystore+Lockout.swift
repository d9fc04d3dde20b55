public import Latchkey

extension PKCS11Keystore {
    /// Unblocks the token's PIN with its unblocking code (PUK) or the security officer's PIN, and
    /// sets a new PIN. The new PIN answers the next prompt of the same operation.
    ///
    /// Returns `false` for a token that only another program can unblock. The error for the locked
    /// PIN names that program.
    public func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        do throws(KeystoreError) {
            let snapshot = try await sealingSnapshot(for: box(of: secret).header)
            guard secret.policy.requirement != .none,
                try await pinStatus(snapshot, isPrecise: true).isLockedOut
            else {
                return true
            }
            let administrator = TokenAdministrator(
                snapshot.token.uri, options: options, container: prompt.container,
                presence: presence)
            do throws(KeystoreError) {
                try await administrator.unblockPIN()
            } catch {
                guard error.code == .unsupported else { throw error }
                return false
            }
            return true
        } catch {
            throw error.during("lift a lockout")
        }
    }
}
