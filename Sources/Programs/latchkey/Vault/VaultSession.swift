import FoundationEssentials
import Latchkey
import LatchkeyServices
import LatchkeyVault

/// The vault of one command.
struct VaultSession {
    let space: VaultSpace
    let key: String

    /// - Parameters:
    ///   - name: nil for the container's only vault.
    ///   - isChange: Whether the command changes the vault.
    ///   - isProtecting: Whether the command stores the secret with biometrics.
    ///   - chosen: The policy of a vault with biometrics; nil for the default.
    /// - Throws: ``KeystoreError``: without a name, `notFound` if there is no vault and
    ///   `invalidInput` if there are several; `invalidInput` for a name that is not valid.
    init(
        _ name: String?, in context: CommandContext, changing isChange: Bool = false,
        protecting isProtecting: Bool = false,
        under chosen: AccessPolicy? = nil
    ) async throws {
        var policy = isProtecting ? try context.settings.policy(chosen) : chosen
        let records = try await context.records()
        if isChange { try records.store.checkWritable() }
        if isProtecting {
            let used =
                if let policy { policy } else {
                    await records.keystore.preferredPolicy(for: .sealing, through: context.presence)
                }
            try await context.checkSealing(records, under: used)
            policy = used
        }
        space = try VaultSpace(records: records, presence: context.presence, policy: policy)
        guard let name else {
            let keys = try space.keys()
            guard let only = keys.first else {
                throw KeystoreError.notFound(
                    "the container ‘\(context.settings.container)’ has no vault",
                    recovery: "Create one with ‘latchkey vault store NAME’.")
            }
            guard keys.count == 1 else {
                throw KeystoreError(
                    code: .invalidInput,
                    reason: "the container has several vaults: \(keys.joined(separator: ", "))",
                    recovery: "Add the name of one of them.")
            }
            key = only
            return
        }
        key = name
        do throws(KeystoreError) {
            _ = try space.isStoredWithBiometrics(key: name)
        } catch {
            // Each command reports a damaged vault in its own way.
            if error.code == .invalidInput { throw error }
        }
    }

    /// The vault in its current state. Does not use the hardware.
    var vault: Vault<Data> { VaultFactory.retrieveVault(key: key, in: space) }

    /// Checks that the vault contains a secret. Does not use the hardware.
    ///
    /// - Returns: Whether the secret is stored with biometrics.
    /// - Throws: ``KeystoreError`` with code `notFound` for an empty vault, or the failure of a
    ///   damaged one.
    @discardableResult
    private func checkExisting() throws -> Bool {
        guard let isProtected = try space.isStoredWithBiometrics(key: key) else {
            throw KeystoreError.notFound(
                "there is no vault ‘\(key)’",
                recovery:
                    "See ‘latchkey vault list’, and --container for the vaults of other containers."
            )
        }
        return isProtected
    }

    /// Checks that the vault exists, damaged or not. Does not use the hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound`.
    func checkPresent() throws {
        if try !space.keys().contains(key) { try checkExisting() }
    }

    /// Checks that the vault's protection meets the minimum policy, which a new secret needs. Does not
    /// use the hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`, or the failure of a damaged vault.
    func checkMinimumPolicy(in context: CommandContext) throws(KeystoreError) {
        guard let policy = try space.storedPolicy(key: key) else { return }
        try context.settings.check(
            policy,
            recovery: policy == .none
                ? "Run ‘latchkey vault upgrade’ first."
                : "Delete the vault with ‘latchkey vault reset’, then store the secret with ‘latchkey vault store’."
        )
    }

    /// Checks that the vault contains a secret with biometrics, or without. Does not use the
    /// hardware.
    ///
    /// - Throws: As ``checkExisting()``, and ``KeystoreError`` with code `wrongState` for the other
    ///   kind of vault.
    private func check(isStoredWithBiometrics isProtected: Bool) throws {
        guard try checkExisting() == isProtected else {
            throw KeystoreError(
                code: .wrongState,
                reason: isProtected
                    ? "the vault opens without a PIN or fingerprint"
                    : "the vault already requires a PIN or fingerprint",
                recovery: isProtected
                    ? "To require one, run ‘latchkey vault upgrade’. ‘latchkey vault show’ prints the secret."
                    : "To change its policy, run ‘latchkey vault downgrade’ first.")
        }
    }

    /// The vault, unlocked if it was locked.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound` for an empty vault, the failure of a
    ///   damaged one, and the errors of unlocking.
    func opened() async throws -> Vault<Data> {
        try checkExisting()
        try await space.open()
        let vault = vault
        return if case .locked(let locked) = vault { try await locked.unlock().wrap() } else {
            vault
        }
    }

    /// The vault with biometrics, unlocked.
    func unlocked() async throws -> Vault<Data> {
        try check(isStoredWithBiometrics: true)
        return try await opened()
    }

    /// The vault without biometrics.
    func unprotected() async throws -> Vault<Data> {
        try check(isStoredWithBiometrics: false)
        return try await opened()
    }

    /// The vault with biometrics, locked.
    func locked() throws -> Vault<Data> {
        try check(isStoredWithBiometrics: true)
        let vault = vault
        return if case .biometrics = vault { try vault.lock() } else { vault }
    }

    /// The empty vault.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict` if the vault contains a secret.
    func empty() async throws -> EmptyVault<Data> {
        try await space.open()
        switch vault {
        case .empty(let empty), .emptyWithBiometrics(let empty): return empty
        case .locked(let locked):
            throw locked.failure ?? occupied
        case .keychain, .keychainUpgradable, .biometrics: throw occupied
        }
    }

    private var occupied: KeystoreError {
        .conflict(
            "the vault already contains a secret",
            recovery:
                "Replace the secret with ‘latchkey vault update NAME’, or delete it with ‘latchkey vault reset NAME’."
        )
    }
}
