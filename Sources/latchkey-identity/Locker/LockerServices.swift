import FoundationEssentials
import GRDB
import Latchkey
import LatchkeyRelyingParty

/// What the locker's endpoints and grants work with.
struct LockerServices: Sendable {
    let configuration: ServerConfiguration.Locker
    let registry: any LockerRegistry
    let verifier: LockerRequestVerifier
    let addressLimit: RateLimiter
    let userLimit: RateLimiter

    /// - Returns: nil when the configuration has the locker off.
    init?(
        _ configuration: ServerConfiguration, database: any DatabaseWriter, challenges: any ChallengeStore,
        secrets: SecretStore, clock: WallClock
    ) async throws {
        guard configuration.extensions.locker.enabled else { return nil }
        self.configuration = configuration.extensions.locker
        // The key lies in the same file as what it seals. It serves whoever gets at the table alone; whoever has the
        // file has the shares, which is one more reason why only its owner can read it.
        let key = try await secrets.value("locker shares") {
            SecretBytes.random(count: 32).withUnsafeBytes { Data($0) }
        }
        registry = try DatabaseLockerRegistry(
            database, project: configuration.project, shareKey: SecretBytes(key))
        verifier = LockerRequestVerifier(challenges: challenges, registry: registry, clock: clock)
        addressLimit = RateLimiter(limit: configuration.rateLimits.lockerPerAddress, per: 60, clock: clock)
        userLimit = RateLimiter(limit: configuration.rateLimits.lockerPerUser, per: 60, clock: clock)
    }

    /// The shares to release for an enrolment; nil where none are kept.
    func levelShares(of enrolment: LockerEnrolment) async throws -> LevelShares? {
        // Also without shares this finds out that the enrolment has gone meanwhile.
        let shares = try await registry.levelShares(of: enrolment.id)
        return configuration.levelShares ? shares : nil
    }
}
