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
    private static let hasher = PasswordHasher(logRounds: 4)

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

    static func grant(of user: User, _ proof: GrantProof = .password) -> LoginGrant {
        LoginGrant(
            id: UUID().uuidString.lowercased(), clientID: "app", userID: user.id,
            deviceID: proof.deviceID, enrolmentID: nil,
            easyAccessKeyID: nil, scope: "openid offline_access",
            amr: proof.amr, authTime: 1,
            expiresAt: 9e9, idleExpiresAt: 9e9, keyThumbprint: nil)
    }

    static func tokens(_ grant: LoginGrant, after old: RefreshToken? = nil) -> NewTokens {
        NewTokens(
            expiresIn: 60, keyThumbprint: nil,
            refresh: old?.successor ?? RefreshToken(grantID: grant.id))
    }

    /// A device of a user, not registered.
    private static func device(of user: User, at time: Date) throws -> RegisteredDevice {
        let jwk = try JSONDecoder().decode(JWK.self, from: JSONEncoder().encode(TestDevice().jwk))
        return RegisteredDevice(
            kid: try #require(KeyID(rawValue: UUID().uuidString)), userID: user.id,
            key: try #require(DevicePublicKey(jwk)),
            info: try #require(DeviceInfo(["ios": ["uname": ["machine": "Linux"]]])),
            createdAt: time)
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
                redirectURI: "", codeChallenge: "", scope: "openid", nonce: nil,
                keyThumbprint: nil, authTime: 1, expiresAt: 9e9, isUsed: false)
            try await instances[0].grants.insert(code)
            let winners = try await Self.winners(instances) {
                try await $0.grants.insert(
                    grant, provenBy: .password, tokens: Self.tokens(grant), from: code) != nil
            }
            #expect(winners == 1)

            let other = Self.grant(of: user)
            let first = Self.tokens(other)
            let session = try #require(
                try await instances[0].grants.insert(other, provenBy: .password, tokens: first))
            let refresh = try #require(first.refresh)
            let refreshed = try await Self.winners(instances) {
                try await $0.grants.refresh(
                    session, replacing: refresh, with: Self.tokens(other, after: refresh))
            }
            #expect(refreshed == 1)
            // The 49 others mean that the token is stolen.
            #expect(try await instances[1].grants.session(refresh) == nil)
            #expect(try await instances[1].grants.session(accessToken: first.access) == nil)
        }
    }

    @Test func `two logins of one device on two instances leave one session`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        let device = try Self.device(of: user, at: instances[0].clock.now)
        try await instances[0].devices.add(device)
        let winners = try await Self.winners(instances) {
            let grant = Self.grant(of: user, .biometric(device))
            return try await $0.grants.insert(
                grant, provenBy: .biometric(device), tokens: Self.tokens(grant)) != nil
        }
        #expect(winners == 50)
        let left = try await instances[0].grants.database.read {
            try $0.row("SELECT count(*) AS count FROM offline_grant")?.integer("count")
        }
        #expect(left == 1)
    }

    @Test func `of a removal and 50 logins of a device, no session is left`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        for _ in 1...5 {
            let device = try Self.device(of: user, at: instances[0].clock.now)
            try await instances[0].devices.add(device)
            let removal = Task {
                try await instances[1].devices.remove(kid: device.kid, of: user.id)
            }
            // No login fails with an error of the foreign key.
            _ = try await Self.winners(instances) {
                let grant = Self.grant(of: user, .biometric(device))
                return try await $0.grants.insert(
                    grant, provenBy: .biometric(device), tokens: Self.tokens(grant)) != nil
            }
            #expect(try await removal.value?.id == device.id)
            let left = try await instances[0].grants.database.read {
                try $0.row("SELECT count(*) AS count FROM offline_grant")?.integer("count")
            }
            #expect(left == 0)
        }
    }

    @Test func `of a revocation and 50 set-ups with a session, no device is left`() async throws {
        let instances = try await Self.instances(on: PostgreSQLServer.shared.database())
        let user = try await instances[0].users.add(
            username: "alice", password: TestServer.password)
        for _ in 1...5 {
            let grant = Self.grant(of: user)
            let session = try #require(
                try await instances[0].grants.insert(
                    grant, provenBy: .password, tokens: Self.tokens(grant)))
            try await instances[0].devices.add(Self.device(of: user, at: instances[0].clock.now))
            let revocation = Task { try await instances[0].revocation.revokeAll(of: user.id) }
            _ = try await Self.winners(instances) { instance in
                let device = try Self.device(of: user, at: instance.clock.now)
                return try await instance.grants.write(for: session) {
                    try instance.devices.add(device, in: $0)
                } != nil
            }
            #expect(try await revocation.value >= 1)
            #expect(try await instances[1].devices.devices(of: user.id).isEmpty)
        }
    }

    @Test func `instances that start at the same time migrate once and share keys`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let keys = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 1...5 {
                group.addTask {
                    try await Self.instances(1, on: address)[0].signer.published.kid
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
            let session = try #require(
                try await services.grants.insert(grant, provenBy: .password, tokens: first))
            let old = try #require(first.refresh)
            let second = Self.tokens(grant, after: old)
            let new = try #require(second.refresh)

            // COMMIT takes effect, then waits for a replica that does not exist.
            try await server.psql(address, "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
            try await server.restart(.fast)
            let refresh = Task {
                try await services.grants.refresh(
                    session, replacing: old, with: second)
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
