internal import FoundationEssentials
internal import Latchkey

extension CredentialStore {
    /// See ``Credential/find(where:prompt:)-((CredentialAttributes)->CredentialQuery,_)``.
    package func find(where query: (CredentialAttributes) -> CredentialQuery) throws -> [Credential]
    {
        try metadata(where: query).map { credential(stored: $0.id) }
    }

    /// See ``Credential/find(where:prompt:)-((Token.Metadata)->Bool,_)``.
    @_disfavoredOverload
    package func find(where isIncluded: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        var found: [(id: String, createdAt: Date)] = []
        var unreadable: [KeystoreError] = []
        let matches = try records.scanNow(CredentialRows.kind) { record in
            guard let metadata = Self.metadata(record, &unreadable) else { return false }
            if try isIncluded(metadata) { found.append((metadata.id, metadata.createdAt)) }
            // The result is collected above, as ids.
            return false
        }
        publish(matches.unreadable + unreadable)
        return found.sorted { $0.createdAt < $1.createdAt }.map { credential(stored: $0.id) }
    }

    /// The metadata of the credentials that match, oldest first: see `find(where:)`.
    package func metadata(where query: (CredentialAttributes) -> CredentialQuery) throws -> [Token
        .Metadata]
    {
        let matches = try records.findNow(
            CredentialRows.kind, where: query(CredentialAttributes()).records)
        var unreadable = matches.unreadable
        let found = matches.records.compactMap { Self.metadata($0, &unreadable) }
        publish(unreadable)
        return found
    }

    /// The metadata in a row, or nil and an entry in `unreadable`.
    private static func metadata(_ record: Record, _ unreadable: inout [KeystoreError]) -> Token
        .Metadata?
    {
        do throws(KeystoreError) {
            return try CredentialRows.metadata(record)
        } catch {
            unreadable.append(error)
            return nil
        }
    }

    private func publish(_ unreadable: [KeystoreError]) {
        for error in unreadable { publish(.unreadable(error)) }
    }
}
