internal import FoundationEssentials
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
    /// at the metadata of all of them, some hundred at a time.
    ///
    /// `isIncluded` may use the store, and change it: nothing of the store is held while it runs. So this is no snapshot:
    /// a credential that is stored, changed or removed meanwhile, by whomever, is seen as it was before or after, or not
    /// at all; one that is there all the time is looked at once.
    ///
    /// Rows that can't be read hide no others: they are told of as ``CredentialEvent/unreadable(_:)``.
    @_disfavoredOverload
    public func find(where isIncluded: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        var found: [(id: String, createdAt: Date)] = []
        var unreadable: [KeystoreError] = []
        let matches = try records.scanNow(CredentialRows.kind) { record in
            guard let metadata = Self.metadata(record, &unreadable) else { return false }
            if try isIncluded(metadata) { found.append((metadata.id, metadata.createdAt)) }
            // What is wanted is kept here, as an id.
            return false
        }
        tell(of: matches.unreadable + unreadable)
        return found.sorted { $0.createdAt < $1.createdAt }.map { credential(stored: $0.id) }
    }

    /// The metadata of the credentials that match, oldest first: see `find(where:)`.
    public func metadata(
        where query: (CredentialAttributes) -> CredentialQuery = { _ in .all }
    ) throws -> [Token.Metadata] {
        let matches = try records.findNow(CredentialRows.kind, where: query(CredentialAttributes()).records)
        var unreadable = matches.unreadable
        let found = matches.records.compactMap { Self.metadata($0, &unreadable) }
        tell(of: unreadable)
        return found
    }

    /// What a row says; nil, with a note, when it can't be read.
    private static func metadata(_ record: Record, _ unreadable: inout [KeystoreError]) -> Token.Metadata? {
        do throws(KeystoreError) {
            return try CredentialRows.metadata(record)
        } catch {
            unreadable.append(error)
            return nil
        }
    }

    private func tell(of unreadable: [KeystoreError]) {
        for error in unreadable { tell(.unreadable(error)) }
    }
}
