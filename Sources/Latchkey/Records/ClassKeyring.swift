internal import FoundationEssentials
internal import GRDB
internal import Synchronization

/// The class keys of one container: opened by the hardware, kept in memory until they are locked.
final class ClassKeyring: Sendable {
    private struct State {
        var open: [String: ClassSession] = [:]
        var proven: [String: ProvenClass] = [:]
        /// One line of tasks for each class, so that nobody is prompted twice for one class, and nobody waits for a
        /// person who is asked about another.
        var turns: [String: TaskQueue] = [:]
        /// Counts the locks, so that a class that was being opened meanwhile stays shut.
        var locks: [String: Int] = [:]
        var locksOfAll = 0

        func lockCount(_ name: String) -> Int { locksOfAll + (locks[name] ?? 0) }
    }

    private let store: RecordStore
    private let container: String
    private let keystore: any Keystore
    private let state = Mutex(State())

    init(store: RecordStore, container: String, keystore: any Keystore) {
        self.store = store
        self.container = container
        self.keystore = keystore
    }

    // MARK: In memory

    /// Locks all classes.
    func lock() {
        state.withLock { state in
            for session in state.open.values { session.close() }
            state.open.removeAll()
            state.proven.removeAll()
            state.locksOfAll += 1
        }
    }

    /// Locks the classes whose names begin with `prefix`.
    func lock(prefix: String) {
        state.withLock { state in
            for (name, session) in state.open where name.hasPrefix(prefix) {
                session.close()
                state.open[name] = nil
            }
            for name in state.proven.keys where name.hasPrefix(prefix) { state.proven[name] = nil }
            for name in state.turns.keys where name.hasPrefix(prefix) { state.locks[name, default: 0] += 1 }
        }
    }

    /// The session of the class, if it is open.
    func session(_ name: String) -> ClassSession? {
        state.withLock { $0.open[name] }
    }

    /// Takes a class in that was opened elsewhere.
    func adopt(_ session: ClassSession) {
        state.withLock { $0.open[session.name] = session }
    }

    // MARK: With hardware

    /// Opens a class, and makes it where the container has none of that name.
    @discardableResult
    func open(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        if let key = session(protection.name)?.opened { return key }
        return try await inTurn(protection) { () throws(KeystoreError) in
            if let key = session(protection.name)?.opened { return key }
            let locks = lockCount(protection)
            let key =
                if let key = takeProven(protection.name) { key } else {
                    try await unseal(protection, prompt, presence)
                }
            try admit(ClassSession(name: protection.name, key: key), unlessLockedSince: locks)
            return key
        }
    }

    /// Opens a class and keeps that as a proof: the next ``open(_:for:authorizedBy:)`` within a minute asks for no other.
    func prove(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await inTurn(protection) { () throws(KeystoreError) in
            let locks = lockCount(protection)
            let key = try await unseal(protection, prompt, presence)
            state.withLock { state in
                if state.lockCount(protection.name) == locks { state.proven[protection.name] = ProvenClass(key) }
            }
        }
    }

    /// Makes a new class that is not stored yet. It has been opened once, to see that it opens.
    func prepare(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PreparedClass {
        let consent = SingleConsent(presence)
        let secret = SecretBytes.random(count: ClassKey.byteCount)
        let sealed = try await keystore.seal(secret, policy: protection.policy, for: prompt, authorizedBy: consent)
        consent.confirm()
        guard
            sealed.policy == protection.policy,
            try await keystore.unseal(sealed, for: prompt, authorizedBy: consent) == secret
        else { throw .damaged("protect the records", "the hardware does not give back what it sealed") }
        return PreparedClass(
            protection: protection, sealed: sealed, session: ClassSession(name: protection.name, key: ClassKey(secret)))
    }

    // MARK: Helpers

    private func inTurn<R>(
        _ protection: ProtectionClass, _ body: () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        let turns = state.withLock { state in
            let turns = state.turns[protection.name] ?? TaskQueue()
            state.turns[protection.name] = turns
            return turns
        }
        try await turns.take(for: "open the class ‘\(protection.name)’")
        do throws(KeystoreError) {
            let result = try await body()
            await turns.pass()
            return result
        } catch {
            await turns.pass()
            throw error
        }
    }

    private func lockCount(_ protection: ProtectionClass) -> Int {
        state.withLock { $0.lockCount(protection.name) }
    }

    private func takeProven(_ name: String) -> ClassKey? {
        state.withLock { $0.proven.removeValue(forKey: name)?.key }
    }

    private func admit(_ session: ClassSession, unlessLockedSince locks: Int) throws(KeystoreError) {
        let isAdmitted = state.withLock { state in
            guard state.lockCount(session.name) == locks else { return false }
            state.open[session.name] = session
            return true
        }
        guard isAdmitted else { throw .cancelled("open the class ‘\(session.name)’", "it was locked meanwhile") }
    }

    private func unseal(
        _ protection: ProtectionClass, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        guard let sealed = try await stored(protection.name) else {
            return try await make(protection, prompt, presence)
        }
        guard sealed.backend == keystore.backend else {
            throw KeystoreError(
                operation: "open the store", code: .wrongDevice,
                reason: "its records are protected by a key of kind ‘\(sealed.backend)’, not ‘\(keystore.backend)’",
                recovery: "Use the hardware with which the records were made.")
        }
        guard sealed.policy == protection.policy else {
            throw .damaged(
                "open the class ‘\(protection.name)’",
                "it was made under the policy ‘\(sealed.policy)’, not ‘\(protection.policy)’")
        }
        return ClassKey(try await keystore.unseal(sealed, for: prompt, authorizedBy: presence))
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
    ) async throws(KeystoreError) -> ClassKey {
        let container = container
        let hasRecords = try await store.read("read the store") { database in
            try RecordRow.exists(database, container: container, class: protection.name)
        }
        guard !hasRecords else {
            throw .damaged("open the class ‘\(protection.name)’", "its key is missing from the store")
        }
        let prepared = try await prepare(protection, for: prompt, authorizedBy: presence)
        let standing = try await store.write("store a class key") { database in
            try ClassRow(
                container: container, name: protection.name, sealed: prepared.sealed,
                generation: ClassRow.firstGeneration
            )
            .insertUnlessPresent(database)
            guard let standing = try ClassRow.fetch(database, container: container, name: protection.name) else {
                throw KeystoreError.damaged("store a class key", "it vanished")
            }
            return standing.sealed
        }
        if standing == prepared.sealed, let key = prepared.session.opened { return key }
        return ClassKey(try await keystore.unseal(standing, for: prompt, authorizedBy: presence))
    }
}
