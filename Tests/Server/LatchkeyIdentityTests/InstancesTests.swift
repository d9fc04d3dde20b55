import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Several server instances on one PostgreSQL database.
@Suite("Instances", .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct InstancesTests {
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
                    database: TestDatabase.open(address),
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

    static func tokens(_ grant: LoginGrant, after old: RefreshToken? = nil) -> TokenResponse {
        let token = old?.successor ?? RefreshToken(grantID: grant.id)
        return TokenResponse(
            accessToken: OpaqueToken.bytes(), expiresIn: 60,
            refreshToken: token.text, idToken: nil)
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
            let refresh = try #require(first.refreshToken.flatMap(RefreshToken.init))
            let refreshed = try await Self.winners(instances) {
                try await $0.grants.refresh(
                    other, replacing: refresh, with: Self.tokens(other, after: refresh),
                    deviceInfo: nil, idleTimeout: 60)
            }
            #expect(refreshed == 1)
            // The 49 others mean that the token is stolen.
            #expect(try await instances[1].grants.session(refresh) == nil)
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

    @Test func `instances that start at the same time migrate once and share keys`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let keys = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 1...5 {
                group.addTask {
                    try await Self.instances(1, on: address)[0].signer.published.first?.kid
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

    /// Servers answer 503 to the first refresh, and 400 `invalid_grant` to the second.
    @Test func `repeating a refresh whose answer was lost after COMMIT ends the session`()
        async throws
    {
        let server = PostgreSQLServer()
        try await withDatabase(server) { address in
            let services = try await Self.instances(1, on: address)[0]
            let user = try await services.users.add(
                username: "alice", password: TestServer.password)
            let grant = Self.grant(of: user)
            let first = Self.tokens(grant)
            #expect(try await services.grants.insert(grant, tokens: first))
            let old = try #require(first.refreshToken.flatMap(RefreshToken.init))
            let second = Self.tokens(grant, after: old)
            let new = try #require(second.refreshToken.flatMap(RefreshToken.init))

            // COMMIT takes effect, then waits for a replica that does not exist.
            try await server.psql(address, "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
            try await server.restart(.fast)
            let refresh = Task {
                try await services.grants.refresh(
                    grant, replacing: old, with: second, deviceInfo: nil, idleTimeout: 60)
            }
            let isCut = try await poll {
                try await server.psql(
                    address,
                    """
                    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'
                    """) == "1\n"
            }
            #expect(isCut)
            let failure = await #expect(throws: SQLFailure.self) { try await refresh.value }
            #expect(failure?.code == .outcomeUnknown && failure?.isTemporary == true)
            let tokens = try await server.psql(address, "SELECT count(*) FROM access_token")
            #expect(tokens == "2\n", "the refresh took effect")

            try await server.psql(address, "ALTER SYSTEM RESET synchronous_standby_names")
            try await server.restart(.fast)
            #expect(try await services.grants.session(old) == nil)
            #expect(
                try await services.grants.session(new) == nil, "the session ended")
        }
    }
}
