import FoundationEssentials
import Latchkey
import LatchkeyVault

/// The vault of one command.
struct VaultSession {
    let space: VaultSpace
    let key: String

    /// - Parameters:
    ///   - name: nil for the container's only vault.
    ///   - isProtecting: Whether the command stores the secret with biometrics.
    ///   - chosen: The policy for that; nil for the policy that biometric login would use on this machine now.
    /// - Throws: ``KeystoreError``: without a name, `notFound` if there is no vault and `invalidInput` if there are several;
    ///   `invalidInput` for a name that is not valid.
    init(
        _ name: String?, in context: CommandContext, protecting isProtecting: Bool = false,
        under chosen: AccessPolicy? = nil
    ) async throws {
        let records = try await context.records()
        var policy = chosen ?? .userPresence
        if isProtecting, chosen == nil {
            policy = await records.keystore.preferredPolicy(for: .sealing, through: context.presence)
        }
        if isProtecting { try await context.checkSealing(records, under: policy) }
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
        if case .locked(let locked) = vault, let failure = locked.failure, failure.code == .invalidInput {
            throw failure
        }
    }

    /// The vault in its current state. Does not use the hardware.
    var vault: Vault<Data> { VaultFactory.retrieveVault(key: key, in: space) }

    /// The vault, which must contain a secret. Does not use the hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound` for an empty vault, or the failure of a damaged one.
    func existing() throws -> Vault<Data> {
        switch vault {
        case .empty, .emptyWithBiometrics:
            throw KeystoreError.notFound(
                "there is no vault ‘\(key)’",
                recovery: "See ‘latchkey vault list’, and --container for the vaults of other containers.")
        case .locked(let locked):
            if let failure = locked.failure { throw failure }
            return .locked(locked)
        case let open: return open
        }
    }

    /// The vault, which must contain a secret with biometrics, or without. Does not use the hardware.
    ///
    /// - Throws: As ``existing()``, and ``KeystoreError`` with code `wrongState` for the other kind of vault.
    func existing(withBiometrics isProtected: Bool) throws -> Vault<Data> {
        let vault = try existing()
        guard vault.biometricsEnabled == isProtected else {
            throw KeystoreError(
                code: .wrongState,
                reason: isProtected
                    ? "the vault opens without a PIN or fingerprint"
                    : "the vault already requires a PIN or fingerprint",
                recovery: isProtected
                    ? "To require one, run ‘latchkey vault upgrade’. ‘latchkey vault show’ prints the secret."
                    : "To change its policy, run ‘latchkey vault downgrade’ first.")
        }
        return vault
    }

    /// The vault, unlocked if it was locked.
    ///
    /// - Throws: As ``existing()``, and the errors of unlocking.
    func opened() async throws -> Vault<Data> {
        let vault = try existing()
        try await space.open()
        return if case .locked(let locked) = vault { try await locked.unlock().wrap() } else { vault }
    }

    /// The vault with biometrics, unlocked.
    func unlocked() async throws -> Vault<Data> {
        try await existing(withBiometrics: true).unlock()
    }

    /// The vault with biometrics, locked.
    func locked() throws -> Vault<Data> {
        let vault = try existing(withBiometrics: true)
        return if case .locked = vault { vault } else { try vault.lock() }
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
            recovery: "Replace the secret with ‘latchkey vault update’, or delete it with ‘latchkey vault reset’.")
    }
}
