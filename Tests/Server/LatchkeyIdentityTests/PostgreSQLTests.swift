import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import LatchkeyPostgreSQL
@testable import latchkey_identity

/// Two server instances on one PostgreSQL database, and faults of the database.
@Suite("PostgreSQL", .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLTests {
    private static let hasher = PasswordHasher(
        cost: .init(logRounds: 4, blockSize: 1, parallelism: 1))

    static func instances(
        _ count: Int = 2, on address: String
    ) async throws -> [IdentityServices] {
        var instances: [IdentityServices] = []
        for _ in 0..<count {
            instances.append(
                try await IdentityServices(
                    TestServer.configuration,
                    database: IdentityDatabase.open(location: address, configuration: .patient),
                    hasher: hasher,
                    signingKeyCipher: SigningKeyCipher.test()))
        }
        return instances
    }

    /// Runs `body` 50 times at once, on the instances in turn, and counts the successes.
    private static func winners(
        _ instances: [IdentityServices],
        _ body: @escaping @Sendable (IdentityServices) async throws -> Bool
    ) async throws -> Int {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<50 {
                group.addTask { try await body(instances[number % instances.count]) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
    }

    static func grant(of user: User, device: String? = nil) -> LoginGrant {
        LoginGrant(
            id: UUID().uuidString.lowercased(), clientID: "app", userID: user.id, deviceID: device,
            enrolmentID: nil,
            easyAccessKeyID: nil, scope: "openid offline_access",
            amr: device == nil ? nil : .biometric, authTime: 1,
            expiresAt: 9e9, idleExpiresAt: 9e9, deviceInfo: nil)
    }

    static func tokens(_ grant: LoginGrant) -> TokenResponse {
        TokenResponse(
            accessToken: OpaqueToken.bytes(), expiresIn: 60,
            refreshToken: "\(grant.id).\(OpaqueToken.alphanumeric())",
            idToken: nil)
    }

    @Test func `of 50 uses of a challenge on two instances, one succeeds`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        for _ in 1...5 {
            let token = try await instances[0].challenges.issue(.biometricRequest).token
            let winners = try await Self.winners(instances) {
                try await $0.challenges.consume(token, for: .biometricRequest)
            }
            #expect(winners == 1)
        }
    }

    @Test
    func `of 50 uses of a code or refresh token on two instances, one succeeds and the grant ends`()
        async throws
    {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        for _ in 1...5 {
            let grant = Self.grant(of: user)
            let code = AuthorizationCode(
                digest: OpaqueToken.digest(OpaqueToken.bytes()), grantID: grant.id, clientID: "app",
                userID: user.id,
                redirectURI: "", codeChallenge: "", scope: "openid", nonce: nil, authTime: 1,
                expiresAt: 9e9,
                isUsed: false)
            try await instances[0].grants.insert(code)
            let winners = try await Self.winners(instances) {
                try await $0.grants.insert(grant, tokens: Self.tokens(grant), from: code)
            }
            #expect(winners == 1)

            let other = Self.grant(of: user)
            let first = Self.tokens(other)
            #expect(try await instances[0].grants.insert(other, tokens: first))
            let refresh = try #require(first.refreshToken)
            let refreshed = try await Self.winners(instances) {
                try await $0.grants.refresh(
                    other, replacing: refresh, with: Self.tokens(other), deviceInfo: nil,
                    idleTimeout: 60)
            }
            #expect(refreshed == 1)
            // The 49 others mean that the token is stolen.
            #expect(try await instances[1].grants.session(refreshToken: refresh) == nil)
            #expect(try await instances[1].grants.session(accessToken: first.accessToken) == nil)
        }
    }

    @Test func `two logins of one device on two instances leave one session`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        let winners = try await Self.winners(instances) {
            let grant = Self.grant(of: user, device: "d")
            return try await $0.grants.insert(grant, tokens: Self.tokens(grant))
        }
        #expect(winners == 50)
        let left = try await instances[0].grants.database.read {
            try $0.row("SELECT count(*) AS count FROM offline_grant")?.integer("count")
        }
        #expect(left == 1)
    }

    @Test func `limits count the requests of all instances`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let instances = try await Self.instances(on: address)
        let admitted = try await Self.winners(instances) {
            try await RateLimiter(
                "test", limit: 7, per: 60, database: $0.grants.database, clock: $0.clock
            ).admit("a")
        }
        #expect(admitted == 7)
        let checked = try await Self.winners(instances) {
            try await $0.throttle.begin(.init(nil, named: "mallory"), address: "192.0.2.1") == nil
        }
        #expect(checked == LoginThrottle.failuresPerUserAndAddress)
    }

    @Test func `instances that start at the same time migrate once and share keys`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let keys = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 1...5 {
                group.addTask {
                    try await Self.instances(1, on: address)[0].signer.published().first?.kid
                }
            }
            return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
        }
        #expect(keys.count == 1)
        #expect(
            try await PostgreSQLServer.shared.psql(
                address, "SELECT count(*) FROM latchkey_migration"
            )
            .hasPrefix("\(IdentitySchema.migrations.count)\n"))
    }

    @Test
    func `a connection cut within a transaction is replaced and the transaction repeated once`()
        async throws
    {
        let address = try await PostgreSQLServer.shared.database()
        let database = try PostgreSQLDatabase(
            DatabaseConfiguration.patient.postgreSQL(address: address))
        try await database.write { try $0.script("CREATE TABLE t (n BIGINT)") }
        let attempts = Attempts()
        try await database.write { connection in
            try connection.execute("INSERT INTO t VALUES (1)")
            if attempts.next() == 1 {
                _ = try connection.rows("SELECT pg_terminate_backend(pg_backend_pid()) AS done")
            }
        }
        #expect(attempts.count == 2)
        #expect(try await PostgreSQLServer.shared.psql(address, "SELECT count(*) FROM t") == "1\n")
    }

    @Test func `a restarted server is used again`() async throws {
        let server = PostgreSQLServer()
        var configuration = PostgreSQLConfiguration(address: try await server.database())
        configuration.connectionWait = hangLimit
        let database = try PostgreSQLDatabase(configuration)
        let store = DatabaseChallengeStore(database)
        try await database.migrate(DatabaseChallengeStore.migrations)
        let token = try await store.issue(.biometricRequest).token
        try await server.restart()
        #expect(try await store.consume(token, for: .biometricRequest))
        #expect(try await !store.consume(token, for: .biometricRequest))
        try await server.end()
    }

    @Test func `without a free connection, or a server, the error is temporary`() async throws {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        // Long enough to connect on a busy machine.
        (configuration.maximumConnections, configuration.connectionWait) = (1, .seconds(15))
        configuration.statementTimeout = hangLimit
        let database = try PostgreSQLDatabase(configuration)
        try await database.check()
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let long = Task {
            try await database.read {
                start.finish()
                return try $0.rows("SELECT pg_sleep(600)::text AS done").count
            }
        }
        for await _ in started {}
        let refusal = await #expect(throws: SQLFailure.self) { try await database.check() }
        #expect(refusal?.code == .poolExhausted && refusal?.isTemporary == true)
        // Cancelling the task cancels the statement in the server, and the connection is free
        // again.
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
        try await database.check()

        configuration.address = "postgresql:///x?host=/nonexistent"
        let absent = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) { try await absent.check() }
        #expect(failure?.code == .unavailable && failure?.isTemporary == true)
    }

    @Test
    func `a statement that takes too long ends with an error, and the connection remains usable`()
        async throws
    {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        (configuration.maximumConnections, configuration.statementTimeout) = (1, .seconds(3))
        let database = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.read { try $0.rows("SELECT pg_sleep(600)::text AS done") }
        }
        #expect(failure?.code == .timeout && failure?.sqlState == "57014")
        try await database.check()
    }

    @Test func `a connection prepares its statements again after the schema changed`() async throws
    {
        let address = try await PostgreSQLServer.shared.database()
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.maximumConnections = 1
        let database = try PostgreSQLDatabase(configuration)
        try await database.write { try $0.script("CREATE TABLE item (id TEXT)") }
        let read: () async throws -> [SQLRow] = {
            try await database.read { try $0.rows("SELECT * FROM item") }
        }
        _ = try await read()
        try await PostgreSQLServer.shared.psql(address, "ALTER TABLE item ADD COLUMN more TEXT")
        #expect(try await read().isEmpty)
        try await PostgreSQLServer.shared.psql(address, "INSERT INTO item VALUES ('a', 'b')")
        #expect(try await read().first?.text("more") == "b")
    }

    @Test func `COMMIT of a transaction whose failure its body ignored is an error`() async throws {
        let database = try PostgreSQLDatabase(
            DatabaseConfiguration.patient.postgreSQL(
                address: try await PostgreSQLServer.shared.database()))
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.write { _ = try? $0.rows("SELECT 1 / 0 AS x") }
        }
        #expect(failure?.code == .statement)
        try await database.check()
    }

    @Test func `of 50 set-ups at once with two devices allowed, two succeed`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        let winners = try await Self.winners(instances) { instance in
            let jwk = try JSONDecoder().decode(
                JWK.self, from: JSONEncoder().encode(TestDevice().jwk))
            let key = try #require(DevicePublicKey(jwk))
            let kid = try #require(KeyID(rawValue: UUID().uuidString))
            let info = try #require(DeviceInfo(["ios": ["uname": ["machine": "Linux"]]]))
            return try await instance.devices.add(
                RegisteredDevice(
                    kid: kid, userID: user.id, key: key, info: info,
                    createdAt: instance.clock.now), limit: 2)
        }
        #expect(winners == 2)
    }

    @Test
    func `of statements sent together, a failure undoes all, and the connection remains usable`()
        async throws
    {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        configuration.maximumConnections = 1
        let database = try PostgreSQLDatabase(configuration)
        try await database.write { try $0.script("CREATE TABLE item (id TEXT PRIMARY KEY)") }
        let insert: @Sendable ([String]) async throws -> Void = { names in
            try await database.write { connection in
                let insertions = names.map { name -> SQLText in "INSERT INTO item VALUES (\(name))"
                }
                try connection.execute(insertions + ["DELETE FROM item WHERE id = 'b'"])
            }
        }
        for _ in 1...2 {
            let failure = await #expect(throws: SQLFailure.self) {
                try await insert(["d", "d", "e"])
            }
            #expect(failure?.sqlState == "23505")
        }
        try await insert(["a", "b", "c"])
        let prepared = try await database.read {
            try $0.rows("SELECT name FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
                .count
        }
        #expect(prepared == 1, "a failure does not prepare a statement again")
        let left = try await database.read {
            try $0.rows("SELECT id FROM item ORDER BY id").map { try $0.text("id") }
        }
        #expect(left == ["a", "c"])
    }

    /// The plan of a prepared statement assumes that a third of all rows are expired.
    @Test func `deleting expired rows reads no other rows`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let database = try await IdentityDatabase.open(location: address)
        let deletion = try await database.read {
            $0.deletionOfExpired(from: "latchkey_challenge", at: 0).rendered(for: .postgreSQL).text
        }
        let plan = try await PostgreSQLServer.shared.psql(
            address,
            """
            INSERT INTO latchkey_challenge
            SELECT sha256(convert_to(n::text, 'UTF8')), 'test', 4e9 + n * 7919 % 10007 FROM generate_series(1, 10000) AS n;
            ANALYZE latchkey_challenge;
            SET plan_cache_mode = force_generic_plan;
            PREPARE deletion (double precision) AS \(deletion);
            EXPLAIN (COSTS OFF) EXECUTE deletion (0)
            """)
        #expect(
            plan.contains("Index Scan using latchkey_challenge_expiry")
                && !plan.contains("Seq Scan"), "\(plan)")
    }

    @Test func `entries of the audit log cannot be changed or deleted`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let instance = try await Self.instances(1, on: address)[0]
        _ = try await instance.users.add(username: "alice", password: TestServer.password)
        for statement in [
            "UPDATE audit_event SET event = 'x'", "DELETE FROM audit_event", "TRUNCATE audit_event",
        ] {
            await #expect(throws: (any Error).self) {
                try await PostgreSQLServer.shared.psql(address, statement)
            }
        }
        let entries = try await AuditLog(database: instance.database).entries(after: 0, limit: 10)
        #expect(entries.map(\.event) == ["signingKey.added", "user.added"])
    }

    @Test func `values are never part of a statement`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let users = try await Self.instances(1, on: address)[0].users
        for text in ["';DROP/**/TABLE\"user\";--", "$1", "\\'", "a\"b", "%s"] {
            let user = try await users.add(username: text, password: "correct-horse-secret")
            #expect(try await users.user(named: text)?.id == user.id)
        }
        #expect(try await users.user(named: "' OR '1'='1") == nil)
        let failure = await #expect(throws: SQLFailure.self) { try await users.user(named: "a\0b") }
        #expect(failure?.code == .invalidText && failure?.description.contains("a\0b") == false)
        let log = try await PostgreSQLServer.shared.log()
        #expect(!log.contains("correct-horse-secret"))
    }

    /// libpq ignores both for Unix sockets, and the host can come from a service file or the
    /// environment.
    @Test(arguments: ["/x", "/x?service=fleet", "db.example.com/x"])
    func `without another setting, a server must have a valid certificate`(address: String) throws {
        let parameters = try ConnectionParameters(
            PostgreSQLConfiguration(address: "postgresql://\(address)"))
        #expect(parameters.hosts[0].first { $0.0 == "sslmode" }?.1 == "verify-full")
        let own = try ConnectionParameters(
            PostgreSQLConfiguration(address: "postgresql:///x?sslmode=require"))
        #expect(own.hosts[0].first { $0.0 == "sslmode" }?.1 == "require", "the control")
    }

    @Test func `an address with a password is refused without repeating it`() {
        let error = #expect(throws: PostgreSQLConfigurationError.self) {
            _ = try PostgreSQLDatabase(
                PostgreSQLConfiguration(address: "postgresql://u:hunter2@localhost/x"))
        }
        #expect(
            error?.description.contains("password") == true
                && error?.description.contains("hunter2") == false)
    }
}

/// Counts calls.
final class Attempts: Sendable {
    private let state = Mutex(0)

    var count: Int { state.withLock { $0 } }

    func next() -> Int {
        state.withLock { count in
            count += 1
            return count
        }
    }
}
