internal import Latchkey
internal import LatchkeyOAuth

/// The server and the OAuth client to which a stored login belongs.
public struct LoginServer: Hashable, Sendable {
    /// The server's address: scheme and host in lower case, without the scheme's default port and without slashes at
    /// the end.
    public let address: String
    /// The OAuth client id.
    public let clientID: String

    private static let addressName = "issuer"
    private static let clientName = "client"

    /// - Returns: nil for an address that no secret may be sent to, and for an empty client id.
    package init?(address: String, clientID: String) {
        guard let endpoint = Endpoint(address), !clientID.isEmpty else { return nil }
        var path = endpoint.path[...]
        while path.hasSuffix("/") { path = path.dropLast() }
        self.address = endpoint.canonicalOrigin + path
        self.clientID = clientID
    }

    /// The server that a row names.
    ///
    /// - Returns: nil for a row of a version that stored no server.
    init?(_ attributes: [String: String]) {
        guard let address = attributes[Self.addressName], let clientID = attributes[Self.clientName] else { return nil }
        self.init(address: address, clientID: clientID)
    }

    /// The attributes that bind a row to this server. The row's MAC covers them.
    var attributes: [String: String] { [Self.addressName: address, Self.clientName: clientID] }

    /// Whether an ID token is of this server and for this client, as far as its claims say.
    func isNamed(by token: IDToken) -> Bool {
        token.aud.contains(clientID) && LoginServer(address: token.iss, clientID: clientID) == self
    }
}

extension LoginServer: CustomStringConvertible {
    /// The address and the client id, fit for one line.
    public var description: String { "‘\(address)’ (client ‘\(String(oneLine: clientID, limit: 128))’)" }
}
