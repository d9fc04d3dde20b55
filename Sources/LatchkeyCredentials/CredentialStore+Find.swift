internal import FoundationEssentials
internal import Latchkey

extension CredentialStore {
    /// The credentials that match, oldest first. Opens no token, does not prompt, and reads only the matching rows.
    ///
    /// Rows that can't be read are left out, and reported as ``CredentialEvent/unreadable(_:)``.
    public func find(where query: (CredentialAttributes) -> CredentialQuery) throws -> [Credential] {
        try metadata(where: query).map { credential(stored: $0.id) }
    }

    /// The credentials whose metadata satisfies `isIncluded`, oldest first. Opens no token and does not prompt. Reads the
    /// metadata of all credentials, some hundred at a time.
    ///
    /// `isIncluded` may use and change the store, since no lock is held while it runs. The result is therefore not a
    /// snapshot: a credential that is stored, changed or removed at the same time may be seen before or after the change, or
    /// not at all. Every other credential is visited once.
    ///
    /// Rows that can't be read are left out, and reported as ``CredentialEvent/unreadable(_:)``.
    @_disfavoredOverload
    public func find(where isIncluded: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        var found: [(id: String, createdAt: Date)] = []
        var unreadable: [KeystoreError] = []
        let matches = try records.scanNow(CredentialRows.kind) { record in
            guard let metadata = Self.metadata(record, &unreadable) else { return false }
            if try isIncluded(metadata) { found.append((metadata.id, metadata.createdAt)) }
            // The result is collected above, as ids.
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

    /// The metadata in a row, or nil and an entry in `unreadable`.
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
