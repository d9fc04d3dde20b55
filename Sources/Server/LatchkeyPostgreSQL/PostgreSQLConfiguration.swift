/// The address and the limits of a PostgreSQL database.
public struct PostgreSQLConfiguration: Sendable {
    /// A connection URI (`postgresql://host/database`) or libpq's `keyword=value` pairs, without a
    /// password. libpq takes the password from its password file (`passfile`, `PGPASSFILE`,
    /// `~/.pgpass`) or from `PGPASSWORD`.
    ///
    /// Over TCP the server must have a certificate for its host name (`sslmode=verify-full`),
    /// unless the address sets `sslmode`. The address can name several hosts
    /// (`postgresql://a,b/database`): a connection uses the one that accepts writes, and skips a
    /// host that does not answer within `connect_timeout` (2 seconds by default, at most half of
    /// ``connectionWait``).
    public var address: String
    /// The maximum number of connections of this process.
    public var maximumConnections = 8
    /// The maximum time of a statement.
    public var statementTimeout: Duration = .seconds(5)
    /// The maximum wait for a connection. It includes the time to connect, also after the database
    /// restarted.
    public var connectionWait: Duration = .seconds(5)

    /// Uses an address with the default limits.
    public init(address: String) { self.address = address }

    /// Whether a text is the URI of a PostgreSQL database, and not a path.
    public static func isAddress(_ text: String) -> Bool {
        text.hasPrefix("postgresql://") || text.hasPrefix("postgres://")
    }
}
