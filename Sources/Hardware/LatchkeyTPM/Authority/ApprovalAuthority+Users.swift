internal import FoundationEssentials
package import Latchkey
internal import TPM2

/// What the presence broker keeps for users, for the administrator: the TPM has few places, and a
/// new account can get the user ID of one that was deleted.
extension ApprovalAuthority {
    /// The number of the TPM's indices that each user has: one for the PIN, one for the enrolled
    /// fingers. Users without a record are not in it.
    package var users: [UInt32: Int] {
        (store.current?.users ?? [:]).mapValues { $0.indices.count }
    }

    /// Removes everything that the broker and the TPM keep for a user: the PIN, the counter of
    /// changed fingers, failed fingers, and the permission to sign in. The user's keys that need the
    /// PIN, or the fingers that were enrolled, cannot be used again.
    ///
    /// The record is removed last, so that an interrupted call can be repeated.
    ///
    /// - Throws: `KeystoreError` with code `notFound` for a user without a record; if the TPM's owner
    ///   has a password, the TPM's error.
    package func forget(_ user: UInt32) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await work { (tpm, store) in
                guard let record = store.current?.users[user] else {
                    throw KeystoreError.notFound(
                        "the presence broker keeps nothing for the user \(user)",
                        recovery: "Check the user ID.")
                }
                let root = try StorageRoot(anchor: store.existing.root)
                for area in record.indices {
                    try tpm.remove(NVPublicArea(unmarshalling: area), under: root)
                }
                try store.forget(user)
            }
        } catch { throw error.during("remove a user from the presence broker") }
    }
}

extension AuthorityState.User {
    /// The public areas of the user's indices after their first write.
    fileprivate var indices: [Data] { [pin?.publicArea, enrolment?.counter].compactMap(\.self) }
}

extension TPM {
    /// Removes an index: StartAuthSession, NV_ReadPublic, NV_UndefineSpace. Does nothing if an
    /// authenticated response says that it does not exist.
    ///
    /// - Parameter written: The public area after the first write, which may not have happened.
    fileprivate func remove(_ written: NVPublicArea, under root: StorageRoot) throws(TPMError) {
        try withSaltedSession(under: root) { (session, _) throws(TPMError) in
            guard let found = try provenIndex(at: written.index, auditedBy: session),
                found.publicArea.written == written
            else { return }
            try execute(NVUndefineSpace(found), authorizedBy: .lastUse(of: session))
        }
    }
}
