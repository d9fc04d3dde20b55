public import Latchkey

/// Finding credentials needs no hardware and nobody, and opens no token.
extension CredentialStore {
    /// The credential of this id; nil without one.
    public func with(id: String) throws(KeystoreError) -> Credential? {
        guard Token.isID(id), try records.exists(CredentialRows.id(id)) else { return nil }
        return credential(id)
    }

    /// The credentials that match, oldest first. Found in an index, however many there are:
    ///
    /// ```swift
    /// try store.find { $0.tags["service"] == "purchase" && $0.subject == "jane.doe@example.com" }
    /// ```
    ///
    /// A record that can't be read hides no other: it is told of as ``CredentialEvent/unreadable(_:)``.
    public func find(where condition: (CredentialFields) -> CredentialQuery) throws(KeystoreError) -> [Credential] {
        found(try records.findNow(CredentialRows.kind, where: condition(CredentialFields()).query))
    }

    /// The credentials for which `isWanted` is true, oldest first. For conditions that a ``CredentialQuery`` can't
    /// express: it looks at every credential.
    @_disfavoredOverload
    public func find(where isWanted: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        found(
            try records.scanNow(CredentialRows.kind) { record in
                try isWanted(try CredentialRows.metadata(record))
            })
    }

    /// All credentials, in the order in which they were stored.
    public func all() throws(KeystoreError) -> [Credential] {
        try allIDs().map(credential)
    }

    /// The ids of all credentials, in the order in which they were stored.
    public func allIDs() throws(KeystoreError) -> [String] {
        try records.idsNow(CredentialRows.kind).map(CredentialRows.token)
    }

    private func found(_ matches: RecordMatches) -> [Credential] {
        for error in matches.unreadable { tell(.unreadable(error)) }
        return matches.records.map { credential(CredentialRows.token($0.id)) }
    }

    // MARK: The default

    /// The credential that the app uses when it doesn't say which; nil when there is none. A credential whose token is
    /// damaged or shut is the default all the same.
    public func defaultCredential() throws(KeystoreError) -> Credential? {
        guard let id = try records.metadataNow(CredentialRows.defaultID)?.attributes["id"] else { return nil }
        return try with(id: id)
    }
}
