package import FoundationEssentials
package import Latchkey
internal import TPM2

/// Detects that a user has entered the right PIN, without receiving the PIN: the TPM then resets
/// the count of wrong PINs. Apart from the right PIN, only a matching finger and root reset the
/// count.
extension ApprovalAuthority {
    /// The index of the user's PIN; nil if the user has no PIN. Another PIN has another index,
    /// unless a user with the old PIN changed it.
    package func pinIndex(of user: UInt32) async throws(KeystoreError) -> Data? {
        guard failure == nil else { return nil }
        do throws(KeystoreError) {
            return try await work { (tpm, store) in try tpm.settledPIN(of: user, store)?.publicArea
            }
        } catch { throw error.during("find the user's PIN") }
    }

    /// Makes the count of a user's wrong PINs greater than 0, if necessary with a wrong attempt.
    ///
    /// - Returns: The PIN's index, for ``isPINGiven(by:since:)``; nil if the user has no PIN.
    package func watchPIN(of user: UInt32) async throws(KeystoreError) -> Data? {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                guard let pin = try tpm.settledPIN(of: user, store) else { return nil }
                if try tpm.count(of: pin, store).failures == 0 {
                    _ = try tpm.holds(Data(PolicyDigest.random().bytes), pin, store)
                }
                return try tpm.count(of: pin, store).failures > 0 ? pin.publicArea : nil
            }
        } catch { throw error.during("read the count of wrong PINs") }
    }

    /// Whether the user has entered the right PIN since ``watchPIN(of:)`` returned this index.
    package func isPINGiven(by user: UInt32, since watched: Data) async throws(KeystoreError)
        -> Bool
    {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                guard let pin = try tpm.settledPIN(of: user, store), pin.publicArea == watched
                else { return false }
                return try tpm.count(of: pin, store).failures == 0
            }
        } catch { throw error.during("read the count of wrong PINs") }
    }
}

extension TPM {
    /// The count of wrong PINs. The TPM authenticates the response: a forged count could end the
    /// lockout of fingers.
    ///
    /// - Throws: ``TPMError``, also if the TPM's owner has a password.
    func count(of pin: AuthorityState.UserPIN, _ store: AuthorityStore)
        throws(TPMError) -> UserPINCount
    {
        let index = try NVIndex(unmarshalling: pin.publicArea)
        return try withSaltedSession(under: StorageRoot(anchor: store.existing.root)) {
            (session, _) throws(TPMError) in
            let bytes = try nvRead(index, by: Hierarchy.owner, authorizedBy: .lastUse(of: session))
            return try UserPINCount(unmarshalling: bytes)
        }
    }
}
