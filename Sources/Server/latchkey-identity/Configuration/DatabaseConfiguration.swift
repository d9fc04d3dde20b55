import LatchkeyPostgreSQL

/// The member `database` of the configuration: a PostgreSQL database, which several servers can
/// share.
struct DatabaseConfiguration: Sendable, Codable {
    /// `postgresql://host/database`, without a password; nil for the option `--database`.
    var address: String?
    /// The maximum number of connections of one server.
    var maximumConnections = 8
    /// Seconds after which a statement ends with an error.
    var statementTimeout = 5.0
    /// Seconds to wait for a connection. After that the server answers 503.
    var connectionWait = 5.0

    /// - Throws: ``ConfigurationError``
    func validate() throws {
        if let address, !PostgreSQLConfiguration.isAddress(address) {
            throw ConfigurationError("database.address: must begin with postgresql://")
        }
        guard (1...1_000).contains(maximumConnections) else {
            throw ConfigurationError("database.maximum_connections: must be from 1 to 1000")
        }
        for (name, seconds) in [
            ("statement_timeout", statementTimeout), ("connection_wait", connectionWait),
        ]
        where !(0.001...3_600).contains(seconds) {
            throw ConfigurationError("database.\(name): must be from 0.001 to 3600 seconds")
        }
    }

    func postgreSQL(address: String) -> PostgreSQLConfiguration {
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.maximumConnections = maximumConnections
        configuration.statementTimeout = .seconds(statementTimeout)
        configuration.connectionWait = .seconds(connectionWait)
        return configuration
    }
}
