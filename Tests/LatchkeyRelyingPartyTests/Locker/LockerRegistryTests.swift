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
        #expect(try await rig.registry.levelShares(of: rig.enrolment.id) == rig.shares)
        #expect(try await rig.registry.levelShares(of: older.id) == nil)
        #expect(try await rig.registry.enrolment(id: "no-such-enrolment") == nil)
    }

    @Test func `the registry records the last use of an enrolment`() async throws {
        let rig = try await LockerRig()
        #expect(rig.enrolment.lastUsedAt == nil)
        let time = Date(timeIntervalSince1970: 1_800_000_123)
        for id in [rig.enrolment.id, "no-such-enrolment"] { try await rig.registry.recordUse(of: id, at: time) }
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
        await expect(.enrolmentRevoked) { _ = try await other.levelShares(of: id) }
        await expect(.enrolmentRevoked) { try await other.addEasyAccessKey(LockerRig.key(LockerTestKey()), to: id) }
        try await other.removeEasyAccessKeys(named: nil, of: id)
        #expect(try await !other.remove(id: id))
        #expect(try await rig.registry.enrolment(id: id) == rig.enrolment)
    }

    @Test func `a third easy-access key is refused, the same key again is not`() async throws {
        let rig = try await LockerRig()
        let id = rig.enrolment.id
        let (second, third) = (try LockerRig.key(LockerTestKey()), try LockerRig.key(LockerTestKey()))
        for _ in 1...2 { try await rig.registry.addEasyAccessKey(second, to: id) }
        await expect(.easyAccessLimit) { try await rig.registry.addEasyAccessKey(third, to: id) }
        let first = try #require(KeyID(rawValue: rig.easyAccess.kid))
        try await rig.registry.removeEasyAccessKeys(named: first, of: id)
        try await rig.registry.addEasyAccessKey(third, to: id)
        let keys = try #require(try await rig.registry.enrolment(id: id)).easyAccessKeys
        #expect(Set(keys) == [second, third])
        try await rig.registry.removeEasyAccessKeys(named: nil, of: id)
        try await rig.registry.removeEasyAccessKeys(named: nil, of: id)
        #expect(try await rig.registry.enrolment(id: id)?.easyAccessKeys == [])
    }

    @Test func `names and keys are unique in an enrolment`() async throws {
        let rig = try await LockerRig()
        let id = rig.enrolment.id
        for taken in [rig.device, rig.easyAccess] {
            let renamed = LockerTestKey(key: taken.key)
            await expect(.keyTaken) { try await rig.registry.addEasyAccessKey(LockerRig.key(renamed), to: id) }
            await expect(.keyTaken) { try await rig.registry.addEasyAccessKey(LockerRig.key(taken.impostor), to: id) }
        }
        // The device key itself, which requires no PIN.
        await expect(.keyTaken) { try await rig.registry.addEasyAccessKey(LockerRig.key(rig.device), to: id) }
        #expect(try await rig.registry.enrolment(id: id) == rig.enrolment)
    }

    @Test func `of concurrent additions, one becomes the second key`() async throws {
        let rig = try await LockerRig()
        let keys = try (1...8).map { _ in try LockerRig.key(LockerTestKey()) }
        let added = await withTaskGroup(of: Bool.self) { group in
            for key in keys {
                group.addTask { (try? await rig.registry.addEasyAccessKey(key, to: rig.enrolment.id)) != nil }
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
                    (try? await rig.registry.add(LockerRig.enrolment(of: "alice"), shares: nil, limit: 3)) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(added == 2)
        await expect(.enrolmentLimit) {
            try await rig.registry.add(LockerRig.enrolment(of: "alice"), shares: LevelShares(), limit: 3)
        }
        #expect(try await rig.registry.enrolments(of: "alice").count == 3)
        // Other users and projects are counted separately.
        try await rig.registry.add(LockerRig.enrolment(of: "bob"), shares: nil, limit: 1)
        let other = try await LockerRig.registry(project: "two", in: rig.database).1
        try await other.add(LockerRig.enrolment(of: "alice"), shares: nil, limit: 1)
    }

    @Test func `removing an enrolment deletes all its rows`() async throws {
        let rig = try await LockerRig()
        let id = rig.enrolment.id
        #expect(try await rig.registry.remove(id: id))
        #expect(try await !rig.registry.remove(id: id))
        await expect(.enrolmentRevoked) { _ = try await rig.registry.levelShares(of: id) }
        let rows = try await rig.database.read { database in
            try ["latchkey_locker_enrolment", "latchkey_locker_easy_access_key"].map {
                try database.row("SELECT count(*) AS count FROM \(SQLText(stringLiteral: $0))")?.integer("count")
            }
        }
        #expect(rows == [0, 0])
    }

    @Test func `shares are random, have 32 bytes each, and do not change`() async throws {
        let rig = try await LockerRig()
        let other = LevelShares()
        #expect(
            Set([rig.shares.background, rig.shares.active, other.background, other.active].map(Self.bytes)).count == 4)
        #expect(rig.shares.background.count == 32 && rig.shares.active.count == 32)
        #expect(LevelShares(background: SecretBytes([1]), active: rig.shares.active) == nil)
        for _ in 1...3 { #expect(try await rig.registry.levelShares(of: rig.enrolment.id) == rig.shares) }
    }

    @Test func `the database has only sealed shares, each bound to its enrolment and level`() async throws {
        let rig = try await LockerRig()
        let other = try LockerRig.enrolment(of: "alice")
        try await rig.registry.add(other, shares: LevelShares(), limit: 2)
        let columns = try await rig.database.read { database in
            try database.rows("SELECT background_share, active_share FROM latchkey_locker_enrolment")
                .flatMap { [try $0.blob("background_share"), try $0.blob("active_share")] }
        }
        #expect(columns.count == 4 && columns.allSatisfy { $0.count == 60 })
        for share in [rig.shares.background, rig.shares.active] {
            #expect(columns.allSatisfy { $0.range(of: Data(Self.bytes(share))) == nil })
        }

        let (_, stranger) = try await LockerRig.registry(
            in: rig.database, shareKey: SecretBytes([UInt8](repeating: 8, count: 32)))
        await expectDamaged { _ = try await stranger.levelShares(of: other.id) }
        let changes: [SQLText] = [
            "active_share = background_share", "active_share = \(Data(count: 60))", "background_share = \(Data([0]))",
            "background_share = (SELECT background_share FROM latchkey_locker_enrolment WHERE id = \(other.id))",
        ]
        for change in changes {
            try await rig.database.write {
                try $0.execute("UPDATE latchkey_locker_enrolment SET \(change) WHERE id = \(rig.enrolment.id)")
            }
            await expectDamaged { _ = try await rig.registry.levelShares(of: rig.enrolment.id) }
            try await restore(rig)
        }
        #expect(try await rig.registry.levelShares(of: rig.enrolment.id) == rig.shares)
    }

    @Test func `a sealing key of another length is refused`() async {
        let error = await #expect(throws: KeystoreError.self) {
            try await LockerRig.registry(shareKey: SecretBytes([UInt8](repeating: 7, count: 16)))
        }
        #expect(error?.code == .invalidInput)
    }

    /// Stores the enrolment with its shares again.
    private func restore(_ rig: LockerRig) async throws {
        #expect(try await rig.registry.remove(id: rig.enrolment.id))
        try await rig.registry.add(rig.enrolment, shares: rig.shares, limit: 2)
    }

    private static func bytes(_ share: SecretBytes) -> [UInt8] { share.withUnsafeBytes { Array($0) } }

    private func expect(
        _ code: LockerRequestError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: LockerRequestError.self, sourceLocation: sourceLocation) { try await body() }
        #expect(error?.code == code, sourceLocation: sourceLocation)
    }

    private func expectDamaged(
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: KeystoreError.self, sourceLocation: sourceLocation) { try await body() }
        #expect(error?.code == .damaged, sourceLocation: sourceLocation)
    }
}
