import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import Testing

@testable import LatchkeyRelyingParty

/// A registry with one enrolled device, and a clock that only the test advances.
struct LockerRig: Sendable {
    static let audience = "https://id.example"
    static let shareKey = SecretBytes([UInt8](repeating: 7, count: 32))
    static let actions = LockerRequest.Action.allCases

    let database: any SQLDatabase
    let registry: LockerRegistry
    let challenges: DatabaseChallengeStore
    let verifier: LockerRequestVerifier
    let time = SettableClock(stoppedAt: Date(timeIntervalSince1970: 1_800_000_000))
    let device = LockerTestKey()
    let easyAccess = LockerTestKey()
    let enrolment: LockerEnrolment
    let shares = LevelShares()

    init() async throws {
        (database, registry) = try await Self.registry()
        challenges = DatabaseChallengeStore(database, clock: time.clock)
        verifier = LockerRequestVerifier(
            challenges: challenges, registry: registry, clock: time.clock)
        enrolment = try Self.enrolment(of: "alice", device: device, easyAccess: [easyAccess])
        try await registry.add(enrolment, shares: shares, limit: 1)
    }

    static func registry(
        project: String = "one", in database: (any SQLDatabase)? = nil,
        shareKey: SecretBytes = shareKey
    ) async throws -> (any SQLDatabase, LockerRegistry) {
        let database: any SQLDatabase =
            if let database {
                database
            } else {
                try await TestDatabase.open(
                    DatabaseChallengeStore.migrations + LockerRegistry.migrations)
            }
        return (database, try LockerRegistry(database, project: project, shareKey: shareKey))
    }

    static func enrolment(
        of user: String, device: LockerTestKey = LockerTestKey(), easyAccess: [LockerTestKey] = [],
        at time: Double = 1_700_000_000
    ) throws -> LockerEnrolment {
        LockerEnrolment(
            userID: user, clientID: "app", deviceKey: try key(device),
            easyAccessKeys: try easyAccess.map(key),
            info: try #require(DeviceInfo(LockerTestKey.deviceInfo)),
            createdAt: Date(timeIntervalSince1970: time))
    }

    static func key(_ key: LockerTestKey) throws -> LockerKey {
        LockerKey(kid: try #require(KeyID(rawValue: key.kid)), publicKey: try key.publicKey)
    }

    /// The key that signs for an action, and the action's enrolment.
    func signer(of action: LockerRequest.Action) -> (key: LockerTestKey, enrolment: String?) {
        switch action {
        case .enrol: (LockerTestKey(), nil)
        case .easyAccessEnable: (LockerTestKey(), enrolment.id)
        case .easyAccess: (easyAccess, enrolment.id)
        case .easyAccessDisable, .backgroundAccess, .levelShares, .revoke: (device, enrolment.id)
        }
    }

    func challenge(for action: LockerRequest.Action) async throws -> String? {
        action == .revoke ? nil : try await challenges.issue(.lockerRequest).token
    }

    /// An assertion of the right key.
    func assertion(
        _ action: LockerRequest.Action, key: LockerTestKey? = nil, enrolment: String? = nil,
        challenge: String?,
        header: [String: JSONValue] = [:], payload: [String: JSONValue] = [:]
    ) throws -> String {
        let signer = signer(of: action)
        return try (key ?? signer.key).assertion(
            action.rawValue, audience: Self.audience, enrolment: enrolment ?? signer.enrolment,
            challenge: challenge,
            now: time.clock.seconds, header: header, payload: payload)
    }

    /// Reads and verifies an assertion as the endpoint of `action` does.
    ///
    /// - Parameter countersignature: Replaces the device's, for actions that require one.
    func verify(
        _ assertion: String, as action: LockerRequest.Action, countersignature: String? = nil
    ) async throws {
        let request = try LockerRequest(assertion)
        switch action {
        case .enrol: _ = try await verifier.verifyEnrolment(request, audience: Self.audience)
        case .easyAccessEnable:
            let countersignature = try LockerCountersignature(
                countersignature ?? device.countersignature(of: assertion))
            _ = try await verifier.verifyEasyAccessEnabling(
                request, countersignature: countersignature, audience: Self.audience,
                enrolmentID: enrolment.id)
        case .easyAccessDisable:
            _ = try await verifier.verifyDevice(
                request, for: .easyAccessDisable, audience: Self.audience, enrolmentID: enrolment.id
            )
        case .levelShares:
            _ = try await verifier.verifyDevice(
                request, for: .levelShares, audience: Self.audience, enrolmentID: enrolment.id)
        case .easyAccess: _ = try await verifier.verifyEasyAccess(request, audience: Self.audience)
        case .backgroundAccess:
            _ = try await verifier.verifyDevice(
                request, for: .backgroundAccess, audience: Self.audience, enrolmentID: nil)
        case .revoke:
            _ = try await verifier.verifyRevocation(
                request, audience: Self.audience, enrolmentID: enrolment.id)
        }
    }

    /// The code with which an assertion is refused.
    func refusal(
        of assertion: String, as action: LockerRequest.Action, countersignature: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async -> LockerRequestError.Code? {
        let error = await #expect(throws: LockerRequestError.self, sourceLocation: sourceLocation) {
            try await verify(assertion, as: action, countersignature: countersignature)
        }
        return error?.code
    }
}

extension LockerRegistry {
    /// Adds an easy-access key in a transaction of its own.
    func addEasyAccessKey(_ key: LockerKey, to enrolment: LockerEnrolment) async throws {
        try await database.write { try addEasyAccessKey(key, to: enrolment, in: $0) }
    }
}
