import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@Suite("Locker registry") struct LockerRegistryTests {
    @Test func `the registry returns the stored enrolment`() async throws {
        let rig = try await LockerRig()
        let older = try LockerRig.enrolment(of: "alice", at: 1_600_000_000)
        try await rig.registry.add(older, shares: nil, limit: 2)
        #expect(try await rig.registry.enrolment(id: rig.enrolment.id) == rig.enrolment)
        #expect(try await rig.registry.enrolments(of: "alice") == [older, rig.enrolment])
        #expect(try await rig.registry.enrolments(of: "bob").isEmpty)
        #expect(try await rig.levelShares == rig.shares)
        #expect(try await rig.registry.backgroundShare(of: rig.enrolment) == rig.shares.background)
        #expect(
            try await rig.registry.levelShares(of: older, afterAuthenticationOf: "alice") == nil)
        #expect(try await rig.registry.backgroundShare(of: older) == nil)
        #expect(try await rig.registry.enrolment(id: "no-such-enrolment") == nil)
    }

    @Test func `the registry records the last use of an enrolment`() async throws {
        let rig = try await LockerRig()
        #expect(rig.enrolment.lastUsedAt == nil)
        let time = Date(timeIntervalSince1970: 1_800_000_123)
        for enrolment in [rig.enrolment, try LockerRig.enrolment(of: "alice")] {
            try await rig.registry.recordUse(of: enrolment, at: time)
        }
        #expect(try await rig.registry.enrolment(id: rig.enrolment.id)?.lastUsedAt == time)
    }

    /// The key and its thumbprint are the example of RFC 9449 sections 4.2 and 6.1.
    @Test func `an enrolment is named by the thumbprint of its device key`() throws {
        let jwk = Data(
            #"""
            {"kty": "EC", "crv": "P-256", "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
             "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"}
            """#.utf8)
        let key = LockerKey(
            kid: try #require(KeyID(rawValue: "a-device-key")),
            publicKey: try JSONDecoder().decode(JWK.self, from: jwk).publicKey())
        let enrolment = LockerEnrolment(
            userID: "alice", clientID: "app", deviceKey: key,
            info: try #require(DeviceInfo(LockerTestKey.deviceInfo)), createdAt: Date())
        #expect(enrolment.id == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
    }

    @Test func `a device key can be enrolled once`() async throws {
        let rig = try await LockerRig()
        let again = try LockerRig.enrolment(of: "bob", device: rig.device)
        await expect(.keyTaken) { try await rig.registry.add(again, shares: nil, limit: 1) }
        #expect(try await rig.registry.enrolment(id: again.id) == rig.enrolment)
    }

    @Test func `another project does not see the enrolment`() async throws {
        let rig = try await LockerRig()
        let other = try await LockerRig.registry(project: "two", in: rig.database).1
        let id = rig.enrolment.id
        #expect(try await other.enrolment(id: id) == nil)
        #expect(try await other.enrolments(of: "alice").isEmpty)
        try await expectNoAccess(to: rig.enrolment, in: other)
        #expect(try await rig.registry.enrolment(id: id) == rig.enrolment)
    }

    /// The ID of an enrolment is the thumbprint of a public key, and a device can be enrolled again
    /// for another user.
    @Test func `an enrolment of another user gives no access to a device`() async throws {
        let rig = try await LockerRig()
        let foreign = try LockerRig.enrolment(
            of: "mallory", device: rig.device, easyAccess: [rig.easyAccess])
        #expect(foreign.id == rig.enrolment.id)
        try await expectNoAccess(to: foreign, in: rig.registry)
        try await rig.registry.recordUse(of: foreign, at: Date())
        await expect(.enrolmentRevoked) {
            _ = try await rig.registry.levelShares(
                of: rig.enrolment, afterAuthenticationOf: "mallory")
        }
        #expect(try await rig.registry.enrolment(id: rig.enrolment.id) == rig.enrolment)
    }

    @Test func `a session begins only while its enrolment and its key exist`() async throws {
        let rig = try await LockerRig()
        let (registry, enrolment) = (rig.registry, rig.enrolment)
        let key = try LockerRig.key(rig.easyAccess)
        func begin(with key: LockerKey?, of enrolment: LockerEnrolment) async throws {
            try await rig.database.write { connection in
                if let key {
                    try registry.lock(key, of: enrolment, in: connection)
                } else {
                    try registry.lock(enrolment, in: connection)
                }
            }
        }
        for key in [key, nil] { try await begin(with: key, of: enrolment) }
        // The device key, another key, and a new key with the name of the old one.
        for wrong in [rig.device, LockerTestKey(), rig.easyAccess.impostor] {
            await expect(.easyAccessRevoked) {
                try await begin(with: LockerRig.key(wrong), of: enrolment)
            }
        }
        try await registry.removeEasyAccessKey(named: key.kid, of: enrolment)
        await expect(.easyAccessRevoked) { try await begin(with: key, of: enrolment) }
        try await begin(with: nil, of: enrolment)
        #expect(try await registry.remove(enrolment))
        for key in [key, nil] {
            await expect(.enrolmentRevoked) { try await begin(with: key, of: enrolment) }
        }
        // The device now belongs to another user.
        let next = try LockerRig.enrolment(
            of: "bob", device: rig.device, easyAccess: [rig.easyAccess])
        try await registry.add(next, shares: nil, limit: 1)
        for key in [key, nil] {
            await expect(.enrolmentRevoked) { try await begin(with: key, of: enrolment) }
            try await begin(with: key, of: next)
        }
    }

    @Test func `an enrolment with too many or equal keys is refused`() async throws {
        let rig = try await LockerRig()
        let device = LockerTestKey()
        let keys = [LockerTestKey(), LockerTestKey(), LockerTestKey()]
        let refused: [([LockerTestKey], LockerRequestError.Code)] = [
            (keys, .easyAccessLimit), ([device], .keyTaken), ([device.impostor], .keyTaken),
            ([LockerTestKey(key: device.key)], .keyTaken), ([keys[0], keys[0]], .keyTaken),
            ([keys[0], keys[0].impostor], .keyTaken),
            ([keys[0], LockerTestKey(key: keys[0].key)], .keyTaken),
        ]
        for (easyAccess, code) in refused {
            let enrolment = try LockerRig.enrolment(
                of: "carol", device: device, easyAccess: easyAccess)
            await expect(code) { try await rig.registry.add(enrolment, shares: nil, limit: 1) }
        }
        #expect(try await rig.registry.enrolments(of: "carol").isEmpty)
        let good = try LockerRig.enrolment(
            of: "carol", device: device, easyAccess: [keys[0], keys[1]])
        try await rig.registry.add(good, shares: nil, limit: 1)
        #expect(try await rig.registry.enrolment(id: good.id)?.easyAccessKeys.count == 2)
    }

    @Test func `a third easy-access key is refused, the same key again is not`() async throws {
        let rig = try await LockerRig()
        let id = rig.enrolment.id
        let (second, third) = (
            try LockerRig.key(LockerTestKey()), try LockerRig.key(LockerTestKey())
        )
        for _ in 1...2 { try await rig.registry.addEasyAccessKey(second, to: rig.enrolment) }
        await expect(.easyAccessLimit) {
            try await rig.registry.addEasyAccessKey(third, to: rig.enrolment)
        }
        let first = try #require(KeyID(rawValue: rig.easyAccess.kid))
        try await rig.registry.removeEasyAccessKey(named: first, of: rig.enrolment)
        try await rig.registry.addEasyAccessKey(third, to: rig.enrolment)
        let keys = try #require(try await rig.registry.enrolment(id: id)).easyAccessKeys
        #expect(Set(keys) == [second, third])
        try await rig.registry.removeAllEasyAccessKeys(of: rig.enrolment)
        try await rig.registry.removeAllEasyAccessKeys(of: rig.enrolment)
        #expect(try await rig.registry.enrolment(id: id)?.easyAccessKeys == [])
    }

    @Test func `names and keys are unique in an enrolment`() async throws {
        let rig = try await LockerRig()
        let id = rig.enrolment.id
        for taken in [rig.device, rig.easyAccess] {
            let renamed = LockerTestKey(key: taken.key)
            await expect(.keyTaken) {
                try await rig.registry.addEasyAccessKey(LockerRig.key(renamed), to: rig.enrolment)
            }
            await expect(.keyTaken) {
                try await rig.registry.addEasyAccessKey(
                    LockerRig.key(taken.impostor), to: rig.enrolment)
            }
        }
        // The device key itself, which requires no PIN.
        await expect(.keyTaken) {
            try await rig.registry.addEasyAccessKey(LockerRig.key(rig.device), to: rig.enrolment)
        }
        #expect(try await rig.registry.enrolment(id: id) == rig.enrolment)
    }

    @Test func `of concurrent additions, one becomes the second key`() async throws {
        let rig = try await LockerRig()
        let keys = try (1...8).map { _ in try LockerRig.key(LockerTestKey()) }
        let added = await withTaskGroup(of: Bool.self) { group in
            for key in keys {
                group.addTask {
                    (try? await rig.registry.addEasyAccessKey(key, to: rig.enrolment)) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(added == 1)
        #expect(try await rig.registry.enrolment(id: rig.enrolment.id)?.easyAccessKeys.count == 2)
    }

    @Test func `concurrent enrolments do not exceed the limit`() async throws {
        let rig = try await LockerRig()
        let added = await withTaskGroup(of: Bool.self) { group in
            for _ in 1...8 {
                group.addTask {
                    (try? await rig.registry.add(
                        LockerRig.enrolment(of: "alice"), shares: nil, limit: 3)) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(added == 2)
        await expect(.enrolmentLimit) {
            try await rig.registry.add(
                LockerRig.enrolment(of: "alice"), shares: LevelShares(), limit: 3)
        }
        #expect(try await rig.registry.enrolments(of: "alice").count == 3)
        // Other users and projects are counted separately.
        try await rig.registry.add(LockerRig.enrolment(of: "bob"), shares: nil, limit: 1)
        let other = try await LockerRig.registry(project: "two", in: rig.database).1
        try await other.add(LockerRig.enrolment(of: "alice"), shares: nil, limit: 1)
    }

    @Test func `removing an enrolment deletes all its rows`() async throws {
        let rig = try await LockerRig()
        #expect(try await rig.registry.remove(rig.enrolment))
        #expect(try await !rig.registry.remove(rig.enrolment))
        try await expectNoAccess(to: rig.enrolment, in: rig.registry)
        let rows = try await rig.database.read { database in
            try ["latchkey_locker_enrolment", "latchkey_locker_easy_access_key"].map {
                try database.row("SELECT count(*) AS count FROM \(SQLText(stringLiteral: $0))")?
                    .integer("count")
            }
        }
        #expect(rows == [0, 0])
    }

    @Test func `shares are random, have 32 bytes each, and do not change`() async throws {
        let rig = try await LockerRig()
        let other = LevelShares()
        #expect(
            Set(
                [rig.shares.background, rig.shares.active, other.background, other.active].map(
                    Self.bytes)
            ).count == 4)
        #expect(rig.shares.background.count == 32 && rig.shares.active.count == 32)
        #expect(LevelShares(background: SecretBytes([1]), active: rig.shares.active) == nil)
        for _ in 1...3 { #expect(try await rig.levelShares == rig.shares) }
    }

    @Test func `the database has only sealed shares, each bound to its enrolment and level`()
        async throws
    {
        let rig = try await LockerRig()
        let other = try LockerRig.enrolment(of: "alice")
        try await rig.registry.add(other, shares: LevelShares(), limit: 2)
        let columns = try await rig.database.read { database in
            try database.rows(
                "SELECT background_share, active_share FROM latchkey_locker_enrolment"
            )
            .flatMap { [try $0.blob("background_share"), try $0.blob("active_share")] }
        }
        #expect(columns.count == 4 && columns.allSatisfy { $0.count == 60 })
        for share in [rig.shares.background, rig.shares.active] {
            #expect(columns.allSatisfy { $0.range(of: Data(Self.bytes(share))) == nil })
        }

        let (_, stranger) = try await LockerRig.registry(
            in: rig.database, shareKey: SecretBytes([UInt8](repeating: 8, count: 32)))
        await expectDamaged { _ = try await stranger.backgroundShare(of: other) }
        let changes: [SQLText] = [
            "active_share = background_share", "active_share = \(Data(count: 60))",
            "background_share = \(Data([0]))",
            "background_share = (SELECT background_share FROM latchkey_locker_enrolment WHERE id = \(other.id))",
        ]
        for change in changes {
            try await rig.database.write {
                try $0.execute(
                    "UPDATE latchkey_locker_enrolment SET \(change) WHERE id = \(rig.enrolment.id)")
            }
            await expectDamaged { _ = try await rig.levelShares }
            await expectDamaged { _ = try await rig.registry.backgroundShare(of: rig.enrolment) }
            try await restore(rig)
        }
        #expect(try await rig.levelShares == rig.shares)
    }

    @Test func `a sealing key of another length is refused`() async {
        let error = await #expect(throws: KeystoreError.self) {
            try await LockerRig.registry(shareKey: SecretBytes([UInt8](repeating: 7, count: 16)))
        }
        #expect(error?.code == .invalidInput)
    }

    /// Stores the enrolment with its shares again.
    private func restore(_ rig: LockerRig) async throws {
        #expect(try await rig.registry.remove(rig.enrolment))
        try await rig.registry.add(rig.enrolment, shares: rig.shares, limit: 2)
    }

    /// Expects that no call returns the shares of an enrolment, adds a key to it, or deletes
    /// anything.
    private func expectNoAccess(to enrolment: LockerEnrolment, in registry: LockerRegistry)
        async throws
    {
        await expect(.enrolmentRevoked) { _ = try await registry.backgroundShare(of: enrolment) }
        await expect(.enrolmentRevoked) {
            _ = try await registry.levelShares(
                of: enrolment, afterAuthenticationOf: enrolment.userID)
        }
        await expect(.enrolmentRevoked) {
            try await registry.addEasyAccessKey(LockerRig.key(LockerTestKey()), to: enrolment)
        }
        for key in enrolment.easyAccessKeys {
            try await registry.removeEasyAccessKey(named: key.kid, of: enrolment)
        }
        try await registry.removeAllEasyAccessKeys(of: enrolment)
        #expect(try await !registry.remove(enrolment))
    }

    private static func bytes(_ share: SecretBytes) -> [UInt8] {
        share.withUnsafeBytes { Array($0) }
    }

    private func expect(
        _ code: LockerRequestError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: LockerRequestError.self, sourceLocation: sourceLocation) {
            try await body()
        }
        #expect(error?.code == code, sourceLocation: sourceLocation)
    }

    private func expectDamaged(
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: KeystoreError.self, sourceLocation: sourceLocation) {
            try await body()
        }
        #expect(error?.code == .damaged, sourceLocation: sourceLocation)
    }
}

extension LockerRig {
    /// The shares that the registry releases after the authentication of the enrolment's user.
    fileprivate var levelShares: LevelShares? {
        get async throws {
            try await registry.levelShares(of: enrolment, afterAuthenticationOf: enrolment.userID)
        }
    }
}
