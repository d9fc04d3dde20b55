internal import CPostgreSQL
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyRelyingParty

/// libpq's parameters: those of the address, and safe defaults for the others.
struct ConnectionParameters: Sendable {
    /// The files with trusted authorities of Debian, Fedora and Alpine.
    private static let systemRoots = [
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ]

    /// The files that libpq reads: the parameter of the address, the environment variable, and the
    /// file in the home directory.
    private static let files = [
        ("sslrootcert", "PGSSLROOTCERT", ".postgresql/root.crt"),
        ("sslcrl", "PGSSLCRL", ".postgresql/root.crl"),
        ("sslcert", "PGSSLCERT", ".postgresql/postgresql.crt"),
        ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
        ("passfile", "PGPASSFILE", ".pgpass"),
    ]

    let statementTimeout: Duration
    /// The maximum time until an address of a host answers: `connect_timeout`, or else 2 seconds,
    /// and at most half of the wait for a connection, so that there is time for another host.
    let addressTimeout: Duration
    /// The parameters for each host of the address.
    let hosts: [[(String, String)]]

    /// - Throws: ``PostgreSQLConfigurationError``
    init(_ configuration: PostgreSQLConfiguration) throws {
        var given: [String: String] = [:]
        guard let options = PQconninfoParse(configuration.address, nil) else {
            throw PostgreSQLConfigurationError(
                "the address of the database is not valid. Use postgresql://HOST/DATABASE.")
        }
        defer { PQconninfoFree(options) }
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val {
                given[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        guard given["password"] == nil, given["sslpassword"] == nil else {
            throw PostgreSQLConfigurationError(
                "the address of the database contains a password. Remove it, and store the password in a file that the "
                    + "environment variable PGPASSFILE names.")
        }
        let environment = ProcessInfo.processInfo.environment
        // libpq looks for the file in several directories. It can contain passwords, and name keys
        // and password files, which would not be checked.
        guard given["service"] == nil, environment["PGSERVICE"] == nil else {
            throw PostgreSQLConfigurationError(
                "the database is named by a service of libpq, whose file is not checked. Remove the parameter ‘service’ "
                    + "and the environment variable PGSERVICE, and write the host and the database into the address."
            )
        }
        // libpq ignores both on Unix sockets. The host can also come from PGHOST or PGHOSTADDR, so
        // they are always set.
        if given["sslmode"] == nil, environment["PGSSLMODE"] == nil {
            given["sslmode"] = "verify-full"
        }
        if given["sslrootcert"] == nil, environment["PGSSLROOTCERT"] == nil,
            access("\(environment["HOME"] ?? "")/.postgresql/root.crt", R_OK) != 0
        {
            given["sslrootcert"] = Self.systemRoots.first { access($0, R_OK) == 0 }
        }
        try Self.checkFiles(given, environment)
        let (seconds, attoseconds) = configuration.statementTimeout.components
        let milliseconds = max(1, seconds * 1_000 + attoseconds / 1_000_000_000_000_000)
        given["options"] =
            "-c statement_timeout=\(milliseconds) -c lock_timeout=\(milliseconds) "
            + "-c idle_in_transaction_session_timeout=\(4 * milliseconds) "
            + (given["options"] ?? "")
        let defaults = [
            "application_name": "latchkey-identity", "target_session_attrs": "read-write",
            // Milliseconds until a connection without an answer of the other machine is lost.
            "tcp_user_timeout": "10000",
        ]
        given.merge(defaults) { own, _ in own }
        given["client_encoding"] = "UTF8"
        hosts = Self.hosts(given)
        statementTimeout = configuration.statementTimeout
        if let limit = (given["connect_timeout"] ?? environment["PGCONNECT_TIMEOUT"]).flatMap({
            Int($0)
        }) {
            addressTimeout = limit > 0 ? .seconds(limit) : configuration.connectionWait
        } else {
            addressTimeout = min(.seconds(2), configuration.connectionWait / 2)
        }
    }

    /// Refuses files that other users can change: they name the server, its authorities and the
    /// password.
    private static func checkFiles(_ given: [String: String], _ environment: [String: String])
        throws(PostgreSQLConfigurationError)
    {
        for (parameter, variable, standard) in files {
            // libpq uses the standard file for an empty value.
            let value = given[parameter] ?? environment[variable]
            let named = value?.isEmpty == true ? nil : value
            let path = named ?? "\(environment["HOME"] ?? "")/\(standard)"
            let isPasswordFile = parameter == "passfile"
            // A value can also be a word, such as `system`; and libpq ignores a missing file.
            guard access(path, F_OK) == 0 || isPasswordFile && named != nil else { continue }
            do {
                try TrustedFile.check(path)
            } catch {
                throw PostgreSQLConfigurationError(
                    "the file \(path) cannot be used: \(error.reason). \(error.recovery)")
            }
            if isPasswordFile, let reason = Self.objection(toPasswordFile: path) {
                throw PostgreSQLConfigurationError(
                    "the file \(path) cannot be used: \(reason). Name a file that you own, with mode 600."
                )
            }
        }
    }

    /// The reason why libpq would ignore a password file.
    private static func objection(toPasswordFile path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return String(cString: strerror(errno)) }
        defer { close(descriptor) }
        return SecretFile.objection(to: descriptor, openedAs: path)
    }

    /// Separates the lists of hosts.
    private static func hosts(_ given: [String: String]) -> [[(String, String)]] {
        let lists = ["host", "hostaddr", "port"].compactMap { name in
            given[name].map { (name, $0.split(separator: ",", omittingEmptySubsequences: false)) }
        }
        let count = lists.filter { $0.0 != "port" }.map(\.1.count).max() ?? 1
        let isValid = lists.allSatisfy { $0.1.count == count || $0.0 == "port" && $0.1.count == 1 }
        // libpq reports lists that do not match. With `load_balance_hosts`, it chooses the host.
        guard isValid, given["load_balance_hosts"] == nil else { return [given.map { ($0, $1) }] }
        return (0..<count).map { index in
            let own = lists.map { name, items in
                (name, String(items.count == 1 ? items[0] : items[index]))
            }
            return given.merging(own) { $1 }.map { ($0, $1) }
        }
    }

    func withPointers<R>(
        host: Int,
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> R
    ) -> R {
        let values = hosts[host]
        let (names, texts) = (values.map { strdup($0.0) }, values.map { strdup($0.1) })
        defer { for text in names + texts { free(text) } }
        return body(
            names.map { UnsafePointer($0) } + [nil], texts.map { UnsafePointer($0) } + [nil])
    }
}
