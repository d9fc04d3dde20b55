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
    /// - Returns: nil for a row that names no server.
    init?(_ attributes: [String: String]) {
        guard let address = attributes[Self.addressName], let clientID = attributes[Self.clientName]
        else { return nil }
        self.init(address: address, clientID: clientID)
    }

    /// The attributes that bind a row to this server. The row's MAC covers them.
    var attributes: [String: String] { [Self.addressName: address, Self.clientName: clientID] }

    /// Refuses a row that belongs to another server or client.
    ///
    /// - Throws: ``LoginError`` with code `conflict`; `KeystoreError` with code `damaged` for a row
    ///   that names no server.
    func check(_ row: Record) throws {
        guard let stored = LoginServer(row.attributes) else {
            throw KeystoreError.damaged("the record ‘\(row.id)’ names no server")
        }
        guard stored == self else {
            throw LoginError.otherServer(stored: stored, configured: self)
        }
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
    /// the network, and does not prompt.
    ///
    /// The rows are read without verification. ``LoginRows`` verifies and compares each row that is
    /// used afterwards.
    ///
    /// - Returns: The rows that it read.
    /// - Throws: ``LoginError`` with code `conflict`.
    @discardableResult
    func checkServer() async throws -> UnverifiedRows.Login {
        let login = try await unverified.login()
        for record in login.rows { try configuredServer.check(record) }
        return login
    }
}
