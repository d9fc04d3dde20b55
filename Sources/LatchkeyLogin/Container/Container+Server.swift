internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension Container {
    /// Refuses the operation where the stored login belongs to another server or client. Uses no network, and prompts only
    /// for a login of a version that stored no server.
    ///
    /// This look at the rows is not verified: a row that is used afterwards is compared again, verified, when
    /// ``LoginRows`` reads it.
    ///
    /// - Throws: ``LoginError`` with code `conflict`.
    func checkServer(_ operation: String) async throws {
        for record in try await metadata.login() {
            guard let stored = LoginServer(record.attributes), stored != configuredServer else { continue }
            throw LoginError.otherServer(operation, stored: stored, configured: configuredServer)
        }
        let unbound = try await metadata.unboundRows()
        if !unbound.isEmpty { try await bind(unbound, operation) }
    }

    /// Binds the rows of a version that stored no server to the configured server, if the app says that they belong to it
    /// and no stored ID token says otherwise.
    private func bind(_ unbound: [Record], _ operation: String) async throws {
        guard try await configuration.bindsEarlierLogin(configuredServer) else {
            throw LoginError.unknownServer(operation, configured: configuredServer)
        }
        let prompt = PromptContext(reason: operation, container: name)
        var changes: [RecordChange] = []
        for record in unbound {
            guard let found = try await records.read(record.id, for: prompt, authorizedBy: presence) else { continue }
            if let token = LoginRows.idToken(in: found.record, found.payload), !configuredServer.isNamed(by: token) {
                guard let stored = LoginServer(address: token.iss, clientID: token.aud.first ?? "") else {
                    throw LoginError.unknownServer(operation, configured: configuredServer)
                }
                throw LoginError.otherServer(operation, stored: stored, configured: configuredServer)
            }
            changes.append(rows.bound(found.record, found.payload))
        }
        guard try await rows.applyUnlessChanged(changes, for: prompt) != nil else {
            throw LoginError.changedElsewhere(operation)
        }
    }
}
