internal import FoundationEssentials
internal import GRDB

/// The class keys of one container: opened by the hardware, kept in memory until ``lock()``.
actor ClassKeyring {
    private let store: RecordStore
    private let container: String
    private let keystore: any Keystore
    private var open: [String: ClassKey] = [:]
    /// Counts the locks, so that a class that was being opened meanwhile stays shut.
    private var locks = 0
    private let turns = TaskQueue()

    init(store: RecordStore, container: String, keystore: any Keystore) {
        self.store = store
        self.container = container
        self.keystore = keystore
    }

    func lock() {
        open.removeAll()
        locks += 1
    }

    /// The key, if the class is open.
    func opened(_ name: String) -> ClassKey? { open[name] }

    /// Opens a class, and makes it where the container has none of that name. One caller at a time asks the hardware,
    /// so that nobody is prompted twice for one class.
    func open(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        if let key = open[protection.name] { return key }
        try await turns.take(for: "open the class ‘\(protection.name)’")
        do throws(KeystoreError) {
            let key = try await openAlone(protection, prompt, presence)
            await turns.pass()
            return key
        } catch {
            await turns.pass()
            throw error
        }
    }

    private func openAlone(
        _ protection: ProtectionClass, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        if let key = open[protection.name] { return key }
        let locksBefore = locks
        let sealed: SealedSecret
        if let standing = try await stored(protection.name) {
            sealed = standing
        } else {
            sealed = try await make(protection, prompt, presence)
        }
        guard sealed.backend == keystore.backend else {
            throw KeystoreError(
                operation: "open the store", code: .wrongDevice,
                reason: "its records are protected by a key of kind ‘\(sealed.backend)’, not ‘\(keystore.backend)’",
                recovery: "Use the hardware with which the records were made.")
        }
        guard protection.policy.isMet(by: sealed.policy) else {
            throw .damaged(
                "open the class ‘\(protection.name)’",
                "it was made under the policy ‘\(sealed.policy)’, not ‘\(protection.policy)’")
        }
        let key = ClassKey(try await keystore.unseal(sealed, for: prompt, authorizedBy: presence))
        guard locks == locksBefore else {
            throw .cancelled("open the class ‘\(protection.name)’", "it was locked meanwhile")
        }
        open[protection.name] = key
        return key
    }

    private func stored(_ name: String) async throws(KeystoreError) -> SealedSecret? {
        let container = container
        return try await store.read("read a class key") { database in
            try ClassRow.fetch(database, container: container, name: name)?.sealed
        }
    }

    /// Seals a new random key. Of two processes that do so at once the first to write wins, and both use its key.
    private func make(
        _ protection: ProtectionClass, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let container = container
        let hasRecords = try await store.read("read the store") { database in
            try RecordRow.exists(database, container: container, class: protection.name)
        }
        guard !hasRecords else {
            throw .damaged("open the class ‘\(protection.name)’", "its key is missing from the store")
        }
        let sealed = try await seal(.random(count: ClassKey.byteCount), protection, prompt, presence)
        return try await store.write("store a class key") { database in
            try ClassRow(container: container, name: protection.name, sealed: sealed, generation: 1)
                .insertUnlessPresent(database)
            guard let standing = try ClassRow.fetch(database, container: container, name: protection.name) else {
                throw KeystoreError.damaged("store a class key", "it vanished")
            }
            return standing.sealed
        }
    }

    /// Seals under the class's policy. Hardware that can do nothing without its owner is given the least that it asks
    /// for where the class asks for nobody; any other policy that it can't enforce is an error.
    private func seal(
        _ secret: SecretBytes, _ protection: ProtectionClass, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        do {
            return try await keystore.seal(secret, policy: protection.policy, for: prompt, authorizedBy: presence)
        } catch {
            guard error.code == .unsupported, protection.policy == .none,
                let least = try await keystore.capabilities().leastSealing, least != .none
            else { throw error }
            return try await keystore.seal(secret, policy: least, for: prompt, authorizedBy: presence)
        }
    }
}
