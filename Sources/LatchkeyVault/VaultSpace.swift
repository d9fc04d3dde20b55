public import Latchkey
internal import Synchronization

/// Where vaults are, what protects them, and who asks the person: what the operating system is on iOS.
///
/// Make one when the program starts and name it once:
///
/// ```swift
/// try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence))
/// ```
///
/// From then on ``VaultFactory/retrieveVault(key:)`` needs nothing but the key. What is synchronous in the vaults touches
/// memory and disk only; the hardware and people are always awaited.
public final class VaultSpace: Sendable {
    /// The rows, and the keystore that protects them.
    public let records: RecordContainer
    /// What opens a vault that is stored with biometrics.
    public let policy: AccessPolicy
    let presence: any PresenceAuthority
    private let available = Mutex(false)
    private static let bootstrapped = Mutex<VaultSpace?>(nil)

    /// Makes a space. Nothing is touched yet.
    ///
    /// - Parameters:
    ///   - policy: What vaults with biometrics demand; a vault keeps the policy under which it was stored. Where the
    ///     hardware can't enforce it, storing throws `unsupported`.
    /// - Throws: `KeystoreError` with code `invalidInput` for a policy under which nobody need be present.
    public init(
        records: RecordContainer, presence: any PresenceAuthority, policy: AccessPolicy = .userPresence
    ) throws(KeystoreError) {
        guard policy.requirement != .none else {
            throw .invalidInput("open the vaults", "a vault with biometrics needs a policy that asks for somebody")
        }
        self.records = records
        self.presence = presence
        self.policy = policy
    }

    /// The space of ``VaultFactory/retrieveVault(key:)``, once there is one.
    public static var shared: VaultSpace? { bootstrapped.withLock { $0 } }

    /// Opens a space, looks what the hardware can do, and makes the space the ``shared`` one.
    ///
    /// - Throws: What ``open()`` throws; there is then no new shared space.
    public static func bootstrap(_ space: VaultSpace) async throws(KeystoreError) {
        try await space.open()
        await space.refreshAvailability()
        bootstrapped.withLock { $0 = space }
    }

    /// Opens what needs nobody to be present, so that vaults without biometrics can be read and written. One hardware
    /// operation; at the first start of all, two to make the key. Hardware that opens nothing without its owner asks for
    /// them.
    public func open() async throws(KeystoreError) {
        try await open(as: presence)
        // What a crash left for the hardware to do is in nobody's way; what it can't do now stays noted.
        try? await records.finishRevocations()
    }

    func open(as presence: any PresenceAuthority) async throws(KeystoreError) {
        try await records.open(.device, for: prompt("open the vaults"), authorizedBy: presence)
    }

    /// Whether a vault can be stored with biometrics, or unlocked: as it was when the hardware was looked at last, by
    /// ``bootstrap(_:)`` or ``refreshAvailability()``. It says nothing about what is stored.
    public var isUserVerificationAvailable: Bool { available.withLock { $0 } }

    /// Whether the hardware can take back what opens a vault that is stored with biometrics: no copy of the store from before
    /// a change of the PIN, a downgrade or a reset opens it then. Needs no hardware.
    ///
    /// - Returns: nil for a vault in which nothing is stored with biometrics.
    /// - Throws: `KeystoreError`; `invalidInput` for an impossible name.
    public func isStoredRevocably(key: String) async throws(KeystoreError) -> Bool? {
        let row = try VaultRow(key: key)
        guard let record = try await records.metadata(row.id), row.classes.contains(record.protection) else {
            return nil
        }
        return try await records.areRevocable([row.classes])
    }

    /// The names of the vaults in which something is stored, readable or not, oldest first. Needs no hardware.
    public func keys() throws(KeystoreError) -> [String] {
        try records.idsNow(VaultRow.kind).map(VaultRow.key)
    }

    /// Looks at the hardware again: a reader may have been unplugged, a lockout be over. Asks nobody.
    public func refreshAvailability() async {
        let isAvailable = await canAskForProof()
        available.withLock { $0 = isAvailable }
    }

    private func canAskForProof() async -> Bool {
        guard let capabilities = try? await records.keystore.capabilities(),
            capabilities.sealing.contains(policy.requirement)
        else { return false }
        // What is new needs the finger; what is there may be opened by either.
        if policy.hasFinger {
            switch await capabilities.fingerState(through: presence) {
            case .ready: return true
            case .lockedOut where policy.hasPIN: break
            case .notAvailable, .notEnrolled, .lockedOut: return false
            }
        }
        return (try? await records.keystore.pinStatus())?.isLockedOut != true
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }
}
