internal import FoundationEssentials
internal import GRDB

/// The class keys of one container: opened by the hardware, kept in memory until they are locked.
final class ClassKeyring: Sendable {
    let store: RecordStore
    let container: String
    let keystore: any Keystore
    private let classes = OpenClasses()

    init(store: RecordStore, container: String, keystore: any Keystore) {
        self.store = store
        self.container = container
        self.keystore = keystore
    }

    // MARK: In memory

    /// Locks the classes whose names begin with `prefix`, and what is being opened of them.
    func lock(prefix: String = "", sparing spared: [ClassSession] = []) {
        classes.lock(prefix: prefix, sparing: spared)
    }

    /// The session of the class, if it is open.
    func session(_ name: String) -> ClassSession? {
        classes.session(name)
    }

    /// Takes a new class in that is stored now. It stays shut where a lock came since it was begun.
    func adopt(_ prepared: PreparedClass) {
        classes.admit(prepared.session)
    }

    // MARK: With hardware

    /// Opens a class. One that asks for nobody is made where the container has none of that name.
    ///
    /// - Throws: ``KeystoreError``; `notFound` where the container has no such class and somebody must be present for it:
    ///   such a class is stored together with its first record, or not at all.
    @discardableResult
    func open(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        if let key = session(protection.name)?.opened { return key }
        return try await classes.inTurn(protection.name) { () throws(KeystoreError) in
            if let key = session(protection.name)?.opened { return key }
            let session = classes.begin(protection.name)
            let key =
                if let key = classes.takeProven(protection.name) { key } else {
                    try await unseal(protection, prompt, presence)
                }
            session.open(with: key)
            guard classes.admit(session) else { throw Self.lockedMeanwhile(protection) }
            return key
        }
    }

    /// ``open(_:for:authorizedBy:)``, or a new class to be stored together with its first record.
    func openOrPrepare(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PreparedClass? {
        guard protection.policy != .none, session(protection.name)?.isOpen != true,
            try await stored(protection.name) == nil
        else {
            try await open(protection, for: prompt, authorizedBy: presence)
            return nil
        }
        try await checkHasNoRecords(protection)
        return try await prepare(protection, for: prompt, authorizedBy: presence)
    }

    /// Opens a class and keeps that as a proof: the next ``open(_:for:authorizedBy:)`` within a minute asks for no other.
    func prove(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await classes.inTurn(protection.name) { () throws(KeystoreError) in
            let session = classes.begin(protection.name)
            session.open(with: try await unseal(protection, prompt, presence))
            classes.keep(session)
        }
    }

    /// Makes a new class that is not stored yet. It has been opened once, to see that it opens. Where the container has
    /// a PIN already, the class gets that one, unless it has its own.
    ///
    /// - Parameter revocably: See ``RecordContainer/prepare(_:revocably:for:authorizedBy:)``.
    func prepare(
        _ protection: ProtectionClass, revocably: Revocability = .never, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PreparedClass {
        let session = classes.begin(protection.name)
        let consent = SingleConsent(
            ProtectionClass.hasOwnPIN(protection.name)
                ? presence : StandingPIN(authority: presence, keystore: keystore, witness: classWithPIN))
        let secret = SecretBytes.random(count: ClassKey.byteCount)
        let (sealed, announcement) =
            revocably == .never
            ? (try await seal(secret, protection, prompt, consent), nil)
            : try await sealRevocably(secret, protection, isRequired: revocably == .required, prompt, consent)
        consent.confirm()
        guard
            protection.policy.isMet(by: sealed.policy),
            try await keystore.unseal(sealed, for: prompt, authorizedBy: consent) == secret
        else { throw .damaged("protect the records", "the hardware does not give back what it sealed") }
        session.open(with: ClassKey(secret, isNew: true))
        guard session.isOpen else { throw Self.lockedMeanwhile(protection) }
        return PreparedClass(protection: protection, sealed: sealed, session: session, announcement: announcement)
    }

    // MARK: Helpers

    private static func lockedMeanwhile(_ protection: ProtectionClass) -> KeystoreError {
        .cancelled("open the class ‘\(protection.name)’", "it was locked meanwhile")
    }

    private func unseal(
        _ protection: ProtectionClass, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        guard let sealed = try await stored(protection.name) else {
            try await checkHasNoRecords(protection)
            guard protection.policy == .none else {
                throw .notFound(
                    "open the class ‘\(protection.name)’", "nothing is stored in it", recovery: "Store something first."
                )
            }
            return try await make(protection, prompt, presence)
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
        return ClassKey(try await keystore.unseal(sealed, for: prompt, authorizedBy: presence))
    }

    private func stored(_ name: String) async throws(KeystoreError) -> SealedSecret? {
        let container = container
        return try await store.read("read a class key") { database in
            try ClassRow.fetch(database, container: container, name: name)?.sealed
        }
    }

    @Sendable
    private func classWithPIN() async throws(KeystoreError) -> SealedSecret? {
        let (container, backend) = (container, keystore.backend)
        return try await store.read("read the class keys") { database in
            try ClassRow.first(database, container: container, sealedUnder: .pin, backend: backend)?.sealed
        }
    }

    /// A class key that vanished is damage, not a reason to make another.
    private func checkHasNoRecords(_ protection: ProtectionClass) async throws(KeystoreError) {
        let container = container
        let hasRecords = try await store.read("read the store") { database in
            try RecordRow.exists(database, container: container, class: protection.name)
        }
        guard !hasRecords else {
            throw .damaged("open the class ‘\(protection.name)’", "its key is missing from the store")
        }
    }

    /// Seals a new random key. Of two processes that do so at once the first to write wins, and both use its key.
    private func make(
        _ protection: ProtectionClass, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ClassKey {
        let container = container
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

    /// Seals under the class's policy. Hardware that can do nothing without its owner is given the least that it asks
    /// for where the class asks for nobody; any other policy that it can't enforce is an error.
    func seal(
        _ secret: SecretBytes, _ protection: ProtectionClass, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        do throws(KeystoreError) {
            return try await keystore.seal(secret, policy: protection.policy, for: prompt, authorizedBy: presence)
        } catch {
            guard error.code == .unsupported, protection.policy == .none,
                let least = try await keystore.capabilities().leastSealing, least != .none
            else { throw error }
            return try await keystore.seal(secret, policy: least, for: prompt, authorizedBy: presence)
        }
    }
}
