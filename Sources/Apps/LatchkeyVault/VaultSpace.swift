public import Latchkey
internal import Synchronization

/// The records, the policy and the user prompts of a program's vaults.
///
/// Create one when the program starts, and set it once:
///
/// ```swift
/// try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence))
/// ```
///
/// After that ``VaultFactory/retrieveVault(key:)`` needs only the key. Synchronous calls of the
/// vaults use only memory and disk. Calls that need hardware or the user are `async`.
public final class VaultSpace: Sendable {
    /// The records, and the keystore that protects them.
    package let records: RecordContainer
    /// The policy of vaults that are stored with biometrics; nil for the default of
    /// ``policy(on:)``.
    private let policy: AccessPolicy?
    let presence: any PresenceAuthority
    private let available = Mutex(false)
    private static let bootstrapped = Mutex<VaultSpace?>(nil)

    /// Creates a space. Opens and reads nothing yet.
    ///
    /// - Parameters:
    ///   - policy: The policy of vaults with biometrics. If the hardware cannot enforce it, storing
    ///     throws `unsupported`. nil selects the policy when a vault is stored with biometrics:
    ///     `.userPresence` if a fingerprint can be checked on this machine then, otherwise `.pin`.
    ///     A vault keeps the policy under which it was stored.
    /// - Throws: `KeystoreError` with code `invalidInput` for a policy without user verification.
    @_disfavoredOverload
    public init(
        records: RecordContainer, presence: any PresenceAuthority, policy: AccessPolicy? = nil
    ) throws(KeystoreError) {
        guard policy?.requirement != AccessPolicy.Requirement.none else {
            throw KeystoreError.invalidInput(
                "a vault with biometrics needs a policy with user verification"
            )
            .during("open the vaults")
        }
        self.records = records
        self.presence = presence
        self.policy = policy
    }

    /// Does the same as the other initializer. In this overload `.none` means `AccessPolicy.none`,
    /// which is refused, and not nil.
    public convenience init(
        records: RecordContainer, presence: any PresenceAuthority, policy: AccessPolicy
    ) throws(KeystoreError) {
        try self.init(records: records, presence: presence, policy: Optional(policy))
    }

    /// The space of ``VaultFactory/retrieveVault(key:)``, or nil before ``bootstrap(_:)``.
    static var shared: VaultSpace? { bootstrapped.withLock { $0 } }

    /// Opens a space, queries the hardware's capabilities, and makes it the space of
    /// ``VaultFactory/retrieveVault(key:)``.
    ///
    /// - Throws: The errors of ``open()``. If no space was set before, this space is then set
    ///   without being open: ``VaultFactory/retrieveVault(key:)`` returns locked vaults, which can
    ///   be reset. Otherwise the earlier space remains.
    public static func bootstrap(_ space: VaultSpace) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await space.open()
        } catch {
            bootstrapped.withLock { $0 = $0 ?? space }
            throw error
        }
        await space.refreshAvailability()
        bootstrapped.withLock { $0 = space }
    }

    /// Opens the device class, so that vaults without biometrics can be read and written. One
    /// hardware operation, or two to create the key the first time. Prompts only if the hardware
    /// cannot seal without user verification.
    public func open() async throws(KeystoreError) {
        try await open(as: presence)
        // Revocations that fail stay recorded, and do not affect the vaults.
        try? await records.finishRevocations()
    }

    func open(as presence: any PresenceAuthority) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await records.open(.device, for: prompt("open the vaults"), authorizedBy: presence)
        } catch {
            throw error.during("open the vaults")
        }
    }

    /// Whether a vault can be stored with biometrics, or unlocked, as of the last ``bootstrap(_:)``
    /// or ``refreshAvailability()``. Independent of the stored vaults.
    public var isUserVerificationAvailable: Bool { available.withLock { $0 } }

    /// Whether a vault that is stored with biometrics is revocable: after a PIN change, a downgrade
    /// or a reset, no older copy of the store opens it. Does not use the hardware.
    ///
    /// - Returns: nil for a vault in which nothing is stored with biometrics.
    /// - Throws: `KeystoreError`; `invalidInput` for an invalid key.
    package func isStoredRevocably(key: String) async throws(KeystoreError) -> Bool? {
        let row = try VaultRow(key: key)
        guard let record = try await records.metadata(row.id),
            row.classes.contains(record.protection)
        else {
            return nil
        }
        return try await records.areRevocable([row.classes])
    }

    /// The keys of the vaults that are not empty, readable or not, oldest first. Does not use the
    /// hardware.
    package func keys() throws(KeystoreError) -> [String] {
        try records.idsNow(VaultRow.kind).map(VaultRow.key)
    }

    /// Whether the stored value is protected by biometrics; nil if there is no row. Reads only the
    /// row's header, and does not authenticate it.
    ///
    /// - Throws: `KeystoreError`; `damaged`, `invalidInput` for an invalid key.
    package func isStoredWithBiometrics(key: String) throws(KeystoreError) -> Bool? {
        try record(of: VaultRow(key: key)).map { $0.protection != .device }
    }

    /// The user verification that opening the stored value requires; nil if there is no row. Reads
    /// only the row's header, and does not authenticate it.
    ///
    /// - Throws: `KeystoreError`; `damaged`, `invalidInput` for an invalid key.
    package func storedPolicy(key: String) throws(KeystoreError) -> AccessPolicy? {
        try record(of: VaultRow(key: key))?.protection.policy
    }

    /// The header of a vault's row; nil if the vault is empty.
    ///
    /// - Throws: `KeystoreError`; `damaged` also if another program replaced a value with
    ///   biometrics by one without.
    func record(of row: VaultRow) throws(KeystoreError) -> Record? {
        guard let record = try records.metadataNow(row.id) else { return nil }
        guard record.kind == VaultRow.kind else {
            throw .damaged("the record with the vault's name is not a vault")
        }
        if record.protection == .device {
            guard try !records.isDowngraded(row.id, from: row.classes) else {
                throw .damaged("another program replaced the value by one without biometrics")
            }
        } else if !row.classes.contains(record.protection) {
            throw .damaged("the record's protection class does not belong to a vault")
        }
        return record
    }

    /// Queries the hardware again, for example after a reader was unplugged or a lockout has ended.
    /// Does not prompt.
    public func refreshAvailability() async {
        let isAvailable = await canAskForProof()
        available.withLock { $0 = isAvailable }
    }

    private func canAskForProof() async -> Bool {
        guard let capabilities = try? await records.keystore.capabilities() else { return false }
        let policy = await policy(on: capabilities)
        guard capabilities.sealing.contains(policy.requirement) else { return false }
        // Storing a new value needs a fingerprint reader; opening an existing one may also use the
        // PIN.
        if policy.hasFinger {
            switch await capabilities.fingerState(through: presence) {
            case .ready: return true
            case .lockedOut where policy.hasPIN: break
            case .notAvailable, .notEnrolled, .lockedOut: return false
            }
        }
        return (try? await records.keystore.pinStatus())?.isLockedOut != true
    }

    /// The policy of a vault that is stored with biometrics now.
    func policy(on capabilities: KeystoreCapabilities) async -> AccessPolicy {
        if let policy { return policy }
        return await capabilities.preferredPolicy(for: .sealing, through: presence)
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }
}

/// Retrieves vaults.
public enum VaultFactory<Credentials: Codable & Sendable> {
    /// Retrieves a vault of the space that ``VaultSpace/bootstrap(_:)`` has set.
    ///
    /// Reads one row, and decodes it if its key is open. Does not prompt, use the hardware or
    /// change anything. It never throws, and returns an empty vault only if there is no row. If the
    /// value cannot be read, it returns a locked vault with a
    /// ``LockedBiometricsSecureVault/failure``: `damaged` for a changed row, `invalidInput` for an
    /// intact value of another type, `wrongState` for a vault without biometrics while the space is
    /// not open.
    ///
    /// - Parameter key: 1 to 64 bytes of UTF-8 without control and invisible characters.
    public static func retrieveVault(key: String) -> Vault<Credentials> {
        VaultSlot(key: key, space: VaultSpace.shared).vault
    }

    /// Retrieves a vault of `space`, as ``retrieveVault(key:)`` does.
    public static func retrieveVault(key: String, in space: VaultSpace) -> Vault<Credentials> {
        VaultSlot(key: key, space: space).vault
    }
}
