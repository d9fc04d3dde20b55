import FoundationEssentials
import Latchkey
import LatchkeyVault

/// One vault, for one command.
struct VaultSession {
    let space: VaultSpace
    let key: String

    /// - Parameters:
    ///   - name: nil for the container's only vault.
    ///   - isProtecting: Whether the command stores with biometrics.
    ///   - chosen: What is then demanded; nil for what biometric login would demand on this machine now.
    /// - Throws: ``KeystoreError``; `notFound` when no name is given and there is no vault, `invalidInput` when there are
    ///   several, or for an impossible name.
    init(
        _ name: String?, in context: CommandContext, protecting isProtecting: Bool = false,
        under chosen: AccessPolicy? = nil
    ) async throws {
        let records = try await context.records()
        var policy = chosen ?? .userPresence
        if isProtecting, chosen == nil {
            policy = await records.keystore.preferredPolicy(for: .sealing, through: context.presence)
        }
        space = try VaultSpace(records: records, presence: context.presence, policy: policy)
        guard let name else {
            let keys = try space.keys()
            guard let only = keys.first else {
                throw KeystoreError.notFound(
                    "find the vault", "the container ‘\(context.settings.container)’ has none",
                    recovery: "Make one with ‘latchkey vault store NAME’.")
            }
            guard keys.count == 1 else {
                throw KeystoreError(
                    operation: "find the vault", code: .invalidInput,
                    reason: "there are several: \(keys.joined(separator: ", "))", recovery: "Name one of them.")
            }
            key = only
            return
        }
        key = name
        if case .locked(let locked) = vault, let failure = locked.failure, failure.code == .invalidInput {
            throw failure
        }
    }

    /// The vault as it is now. Uses no hardware.
    var vault: Vault<Data> { VaultFactory.retrieveVault(key: key, in: space) }

    /// The vault, in which something is stored. Uses no hardware.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound` when nothing is, and why it can't be read when it can't.
    func standing(_ operation: String) throws -> Vault<Data> {
        switch vault {
        case .empty, .emptyWithBiometrics:
            throw KeystoreError.notFound(
                "\(operation) the vault ‘\(key)’", "nothing is stored in it",
                recovery: "Store something with ‘latchkey vault store’.")
        case .locked(let locked):
            if let failure = locked.failure { throw failure }
            return .locked(locked)
        case let open: return open
        }
    }

    /// The vault, in which something is stored with biometrics, or without. Uses no hardware.
    ///
    /// - Throws: As ``standing(_:)``, and ``KeystoreError`` with code `wrongState` when it is not so.
    func standing(_ operation: String, withBiometrics isProtected: Bool) throws -> Vault<Data> {
        let vault = try standing(operation)
        guard vault.biometricsEnabled == isProtected else {
            throw KeystoreError(
                operation: "\(operation) the vault ‘\(key)’", code: .wrongState,
                reason: isProtected ? "it is stored without biometrics" : "it is stored with biometrics already",
                recovery: isProtected
                    ? "Have it demand somebody's presence first, with ‘latchkey vault upgrade’."
                    : "To have it demand something else, use ‘latchkey vault downgrade’ first.")
        }
        return vault
    }

    /// The vault, unlocked if it was locked.
    ///
    /// - Throws: As ``standing(_:)``, and what unlocking throws.
    func opened(_ operation: String) async throws -> Vault<Data> {
        let vault = try standing(operation)
        try await space.open()
        return if case .locked(let locked) = vault { try await locked.unlock().wrap() } else { vault }
    }

    /// The vault with biometrics, unlocked.
    func unlocked() async throws -> Vault<Data> {
        try await standing("unlock", withBiometrics: true).unlock()
    }

    /// The vault with biometrics, locked.
    func locked() throws -> Vault<Data> {
        let vault = try standing("lock", withBiometrics: true)
        return if case .locked = vault { vault } else { try vault.lock() }
    }

    /// The empty vault.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict` when something is stored.
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
            "store the vault ‘\(key)’", "something is stored in it already",
            recovery: "Replace it with ‘latchkey vault update’, or discard it with ‘latchkey vault reset’.")
    }
}
