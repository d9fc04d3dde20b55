internal import Latchkey

extension CredentialStore {
    /// The credential that the app uses unless it says otherwise, or nil when there is none.
    ///
    /// - Throws: `KeystoreError` with code `damaged` when there may be one and it can't be told which: nil always means
    ///   that there is none.
    public var defaultCredential: Credential? {
        get throws {
            guard let standing = try rows.standingDefault else { return nil }
            return try credential(id: standing.id)
        }
    }

    /// Makes a stored credential the default, or none. Taking the default away removes no credential.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` for a credential that is no longer stored.
    public func setDefault(_ credential: Credential?) throws {
        do {
            guard try rows.standingDefault?.id != credential?.id else { return }
        } catch let error as KeystoreError {
            // Which one was the default can't be told: now it can.
            guard error.code == .damaged else { throw error }
        }
        if let credential {
            guard try rows.exists(credential.id) else {
                throw CredentialError.notFound("set the default credential", credential.id)
            }
            try records.applyNow([CredentialRows.put(defaultID: credential.id)])
        } else {
            try records.applyNow([.delete(CredentialRows.defaultID, ifGeneration: nil)])
        }
        tell(.defaultChanged(credential))
    }
}
