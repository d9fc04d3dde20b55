/// What `--demo` serves: one client and two users, whose passwords are no secret.
enum Demo {
    struct Account: Sendable, Encodable {
        let username: String
        let password: String
    }

    static let accounts = [
        Account(username: "alice", password: "wonderland-1865"),
        Account(username: "bob", password: "builder-1999-yes"),
    ]

    static let clientID = "latchkey-demo"

    /// Any port of the loopback addresses, under the paths that a command-line client is likely to listen on.
    static var configuration: ServerConfiguration {
        var client = ClientConfiguration(
            id: clientID, name: "Latchkey demo",
            redirectURIs: ["127.0.0.1", "[::1]"].flatMap { host in
                ["/", "/callback", "/authorized"].map { "http://\(host)\($0)" }
            })
        client.postLogoutRedirectURIs = client.redirectURIs
        var configuration = ServerConfiguration(clients: [client])
        configuration.identity.biometric.listEnabled = true
        return configuration
    }

    /// Adds the users that are not there yet.
    static func addUsers(to users: UserStore) async throws {
        for account in accounts where try await users.user(named: account.username) == nil {
            try await users.add(username: account.username, password: account.password)
        }
    }
}
