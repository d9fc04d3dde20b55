internal import Latchkey

extension CredentialStore {
    /// The credentials that match, oldest first. It opens no token, asks nobody, and looks only at what matches,
    /// however many are stored.
    ///
    /// Rows that can't be read hide no others: they are told of as ``CredentialEvent/unreadable(_:)``.
    public func find(where query: (CredentialAttributes) -> CredentialQuery) throws -> [Credential] {
        try metadata(where: query).map { credential(stored: $0.id) }
    }

    /// The credentials whose metadata satisfies `isIncluded`, oldest first. It opens no token and asks nobody, and looks
    /// at the metadata of all of them, one after the other.
    @_disfavoredOverload
    public func find(where isIncluded: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        var ids: [String] = []
        let matches = try records.scanNow(CredentialRows.kind) { record in
            let metadata = try CredentialRows.metadata(record)
            if try isIncluded(metadata) { ids.append(metadata.id) }
            // What is wanted is kept here, as an id.
            return false
        }
        tell(of: matches.unreadable)
        return ids.map(credential(stored:))
    }

    /// The metadata of the credentials that match, oldest first: see ``find(where:)``.
    public func metadata(
        where query: (CredentialAttributes) -> CredentialQuery = { _ in .all }
    ) throws -> [Token.Metadata] {
        let matches = try records.findNow(CredentialRows.kind, where: query(CredentialAttributes()).records)
        var found: [Token.Metadata] = []
        var unreadable = matches.unreadable
        for record in matches.records {
            do throws(KeystoreError) {
                found.append(try CredentialRows.metadata(record))
            } catch {
                unreadable.append(error)
            }
        }
        tell(of: unreadable)
        return found
    }

    private func tell(of unreadable: [KeystoreError]) {
        for error in unreadable { tell(.unreadable(error)) }
    }
}
