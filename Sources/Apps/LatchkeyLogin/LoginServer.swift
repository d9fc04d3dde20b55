internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The server and OAuth client that a stored login belongs to.
public struct LoginServer: Hashable, Sendable {
    /// The server's address: scheme and host in lower case, without the scheme's default port and
    /// without slashes at the end.
    package let address: String
    /// The OAuth client id.
    package let clientID: String

    private static let addressName = "issuer"
    private static let clientName = "client"

    /// - Returns: nil for an address that is neither `https` nor on this machine, and for an empty
    ///   client id.
    package init?(address: String, clientID: String) {
        guard let endpoint = Endpoint(address), !clientID.isEmpty else { return nil }
        var path = endpoint.path[...]
        while path.hasSuffix("/") { path = path.dropLast() }
        self.address = endpoint.canonicalOrigin + path
        self.clientID = clientID
    }

    /// Reads the server from a row's attributes.
    ///
    /// - Returns: nil for a row of a version that stored no server.
    init?(_ attributes: [String: String]) {
        guard let address = attributes[Self.addressName], let clientID = attributes[Self.clientName]
        else { return nil }
        self.init(address: address, clientID: clientID)
    }

    /// The attributes that bind a row to this server. The row's MAC covers them.
    var attributes: [String: String] { [Self.addressName: address, Self.clientName: clientID] }

    /// Whether a row's attributes are this server's ``attributes``. Other attributes can name the
    /// same server too.
    func isNamed(in row: [String: String]) -> Bool {
        row[Self.addressName] == address && row[Self.clientName] == clientID
    }

    /// Whether the claims of an ID token name this server and this client. Does not verify the
    /// token.
    func isNamed(by token: IDToken) -> Bool {
        token.aud.contains(clientID) && LoginServer(address: token.iss, clientID: clientID) == self
    }
}

extension LoginServer: CustomStringConvertible {
    /// The address and the client id, fit for one line.
    public var description: String {
        "‘\(address)’ (client ‘\(String(oneLine: clientID, limit: 128))’)"
    }
}

extension Container {
    /// Refuses the operation if the stored login belongs to another server or client. Does not use
    /// the network, and prompts only for a login of a version that stored no server.
    ///
    /// The rows are read without verification. ``LoginRows`` verifies and compares each row that is
    /// used afterwards.
    ///
    /// - Returns: The rows that it read.
    /// - Throws: ``LoginError`` with code `conflict`.
    @discardableResult
    func checkServer() async throws -> UnverifiedRows.Login {
        let login = try await unverified.login()
        for record in login.rows where !configuredServer.isNamed(in: record.attributes) {
            guard let stored = LoginServer(record.attributes), stored != configuredServer else {
                continue
            }
            throw LoginError.otherServer(stored: stored, configured: configuredServer)
        }
        let unbound = (login.rows + login.identities).filter {
            !configuredServer.isNamed(in: $0.attributes) && LoginServer($0.attributes) == nil
        }
        if !unbound.isEmpty { try await bind(unbound) }
        return login
    }

    /// Binds the rows of a version that stored no server to the configured server, if the app says
    /// that they belong to it and no stored ID token says otherwise.
    private func bind(_ unbound: [Record]) async throws {
        guard try await configuration.bindsEarlierLogin(configuredServer) else {
            throw LoginError.unknownServer(configured: configuredServer)
        }
        var changes: [RecordChange] = []
        for record in unbound {
            guard
                let found = try await records.read(
                    record.id, for: sessionPrompt, authorizedBy: presence)
            else {
                continue
            }
            if let token = LoginRows.idToken(in: found.record, found.payload),
                !configuredServer.isNamed(by: token)
            {
                guard let stored = LoginServer(address: token.iss, clientID: token.aud.first ?? "")
                else {
                    throw LoginError.unknownServer(configured: configuredServer)
                }
                throw LoginError.otherServer(stored: stored, configured: configuredServer)
            }
            changes.append(rows.bound(found.record, found.payload))
        }
        guard try await rows.applyUnlessChanged(changes, for: sessionPrompt) != nil else {
            throw LoginError(
                code: .conflict,
                reason: "another program changed the stored login at the same moment",
                recovery: "Show the status, then try again.")
        }
    }
}
