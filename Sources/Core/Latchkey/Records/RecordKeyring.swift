internal import FoundationEssentials
internal import GRDB
internal import Synchronization

/// The keys of a container's protection classes: the hardware opens them, and memory keeps them
/// until they are locked.
final class RecordKeyring: Sendable {
    let store: RecordStore
    let container: String
    let keystore: any Keystore
    private let cache = RecordKeyCache()
    /// The store's reset count when the classes in memory were opened; see
    /// ``RecordStore/startOver()``.
    private let resetCount: Mutex<Int>
    /// Whether other hardware sealed the device class; nil if that is not known.
    private let foreign = Mutex<Bool?>(nil)

    init(store: RecordStore, container: String, keystore: any Keystore) {
        self.store = store
        self.container = container
        self.keystore = keystore
        resetCount = Mutex(store.currentResetCount)
    }

    // MARK: In memory

    /// Locks the classes whose names begin with `prefix`, and cancels openings of them that have
    /// started.
    func lock(prefix: String = "", sparing spared: [ClassSession] = []) {
        cache.lock(prefix: prefix, sparing: spared)
    }

    /// The session of the class, if it is open.
    func session(_ name: String) -> ClassSession? {
        resetCount.withLock { resetCount in
            let current = store.currentResetCount
            guard resetCount != current else { return }
            cache.lock(prefix: "")
            foreign.withLock { $0 = nil }
            resetCount = current
        }
        return cache.session(name)
    }

    /// Adds a new class that is stored now. It stays locked if a lock came after its creation
    /// began.
    func adopt(_ prepared: PreparedClass) {
        cache.admit(prepared.session)
    }

    // MARK: Other hardware

    /// Whether other hardware protects the records. Each call queries the hardware until the
    /// hardware has confirmed that it protects them. Does not query it while the device class is
    /// open.
    ///
    /// - Returns: False if the hardware does not answer.
    func isForeign() async throws(CommonError) -> Bool {
        if session(ProtectionClass.device.name)?.isOpen == true || isKnownForeign == false {
            return false
        }
        guard let sealed = try await stored(ProtectionClass.device.name),
            let isOwn = await keystore.owns(sealed)
        else {
            return false
        }
        foreign.withLock { $0 = !isOwn }
        return !isOwn
    }

    /// The result of the last query or use of the hardware; nil before the first.
    var isKnownForeign: Bool? { foreign.withLock { $0 } }

    // MARK: With hardware

    /// Opens a class. A class without user verification is created if the container has none of
    /// that name.
    ///
    /// - Throws: ``CommonError``; `notFound` if the container has no such class and the class
    ///   requires user verification: such a class is stored together with its first record.
    @discardableResult
    func open(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> RecordKey {
        if let key = session(protection.name)?.opened { return key }
        return try await cache.serially(protection.name) { () throws(CommonError) in
            if let key = session(protection.name)?.opened { return key }
            let session = cache.begin(protection.name)
            let key =
                if let key = cache.takeVerifiedKey(protection.name) { key } else {
                    try await unseal(protection, for: prompt, authorizedBy: presence)
                }
            session.open(with: key)
            guard cache.admit(session) else { throw Self.lockedMeanwhile(protection) }
            return key
        }
    }

    /// Opens a class as ``open(_:for:authorizedBy:)`` does, or creates one to be stored together
    /// with its first record.
    func openOrPrepare(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> PreparedClass? {
        guard protection.policy != .none, session(protection.name)?.isOpen != true,
            try await stored(protection.name) == nil
        else {
            try await open(protection, for: prompt, authorizedBy: presence)
            return nil
        }
        try await checkHasNoRecords(protection)
        return try await prepare(protection, for: prompt, authorizedBy: presence)
    }

    /// Opens a class with a new proof and keeps the result: ``open(_:for:authorizedBy:)`` within
    /// the next minute does not prompt again. If the hardware can, first lifts a lockout with a
    /// stronger proof.
    func prove(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) {
        try await cache.serially(protection.name) { () throws(CommonError) in
            let session = cache.begin(protection.name)
            session.open(with: try await proven(protection, for: prompt, authorizedBy: presence))
            cache.keep(session)
        }
    }

    private func proven(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> RecordKey {
        do throws(CommonError) {
            return try await unseal(
                protection, for: prompt,
                authorizedBy: PresenceSession(presence, acceptsEarlierProof: false))
        } catch let lockout {
            guard lockout.code == .lockedOut, presence.isInteractive,
                let sealed = try await stored(protection.name)
            else {
                throw lockout
            }
            // The user's preferred kind of proof may be the one that is locked out.
            let presence = PresenceSession(presence, acceptsEarlierProof: false, preferring: .any)
            let isLifted: Bool
            do throws(CommonError) {
                isLifted = try await keystore.liftLockout(
                    of: sealed, for: prompt, authorizedBy: presence)
            } catch {
                guard [.wrongProof, .lockedOut].contains(error.code) else { throw error }
                throw lockout.remaining(after: error)
            }
            guard isLifted else { throw lockout }
            return try await unseal(protection, for: prompt, authorizedBy: presence)
        }
    }

    /// Creates a class that is not stored yet. It has been opened once, as a check. It gets the
    /// container's existing PIN, if there is one, unless the class has its own.
    ///
    /// - Parameter revocably: See ``RecordContainer/prepare(_:revocably:for:authorizedBy:)``.
    func prepare(
        _ protection: ProtectionClass, revocably: Revocability = .never, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> PreparedClass {
        let session = cache.begin(protection.name)
        let presence = PresenceSession(
            presence,
            verifyExistingPIN: ProtectionClass.hasOwnPIN(protection.name) ? nil : verifyExistingPIN)
        let secret = SecretBytes.random(count: RecordKey.byteCount)
        let (sealed, reservation) =
            revocably == .never
            ? (try await seal(secret, protection, for: prompt, authorizedBy: presence), nil)
            : try await sealRevocably(
                secret, protection, isRequired: revocably == .required, for: prompt,
                authorizedBy: presence)
        guard
            protection.policy.isMet(by: sealed.policy),
            try await keystore.unseal(sealed, for: prompt, authorizedBy: presence) == secret
        else { throw .damaged("the hardware does not return the sealed bytes") }
        session.open(with: RecordKey(secret, isNew: true))
        guard session.isOpen else { throw Self.lockedMeanwhile(protection) }
        return PreparedClass(
            protection: protection, sealed: sealed, session: session, reservation: reservation)
    }

    // MARK: Helpers

    private static func lockedMeanwhile(_ protection: ProtectionClass) -> CommonError {
        .cancelled("the class ‘\(protection.name)’ was locked in the meantime")
    }

    private func unseal(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> RecordKey {
        guard let sealed = try await stored(protection.name) else {
            try await checkHasNoRecords(protection)
            guard protection.policy == .none else {
                throw .notFound(
                    "nothing is stored in the class ‘\(protection.name)’",
                    recovery: "Store a record first."
                )
            }
            return try await make(protection, for: prompt, authorizedBy: presence)
        }
        guard sealed.backend == keystore.backend else {
            throw CommonError(
                code: .wrongDevice,
                reason:
                    "the records are protected by a key of kind ‘\(sealed.backend)’, not ‘\(keystore.backend)’",
                recovery: Recovery(
                    "Use the hardware that protected the records, or another container.",
                    .chooseHardware, .resetStore))
        }
        guard protection.policy.isMet(by: sealed.policy) else {
            throw .damaged(
                "the class ‘\(protection.name)’ was created with the policy ‘\(sealed.policy)’, not ‘\(protection.policy)’"
            )
        }
        do throws(CommonError) {
            let key = RecordKey(
                try await keystore.unseal(sealed, for: prompt, authorizedBy: presence))
            foreign.withLock { $0 = false }
            return key
        } catch {
            guard error.code == .wrongDevice else { throw error }
            foreign.withLock { $0 = true }
            throw error.with(recovery: error.recoveryAction.offering(.resetStore))
        }
    }

    func stored(_ name: String) async throws(CommonError) -> SealedSecret? {
        let container = container
        return try await store.read("read a record key") { database in
            try RecordKeyRow.fetch(database, container: container, name: name)?.sealed
        }
    }

    /// Verifies the PIN of a class that has the container's PIN.
    ///
    /// - Returns: `false` if there is no such class.
    @Sendable
    private func verifyExistingPIN(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> Bool {
        let (container, backend) = (container, keystore.backend)
        let sealed = try await store.read("read the record keys") { database in
            try RecordKeyRow.first(
                database, container: container, sealedUnder: .pin, backend: backend)?.sealed
        }
        guard let sealed else { return false }
        _ = try await keystore.unseal(sealed, for: prompt, authorizedBy: presence)
        return true
    }

    /// A missing record key is damage, and is never replaced by a new one.
    private func checkHasNoRecords(_ protection: ProtectionClass) async throws(CommonError) {
        let container = container
        let hasRecords = try await store.read("read the store") { database in
            try RecordRow.exists(database, container: container, class: protection.name)
        }
        guard !hasRecords else {
            throw .damaged("the key of the class ‘\(protection.name)’ is missing from the store")
        }
    }

    /// Seals a new random key. If two processes do this at once, the first to write wins, and both
    /// use its key.
    private func make(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> RecordKey {
        let container = container
        let prepared = try await prepare(protection, for: prompt, authorizedBy: presence)
        let existing = try await store.write("store a record key") { database in
            try RecordKeyRow(
                container: container, name: protection.name, sealed: prepared.sealed,
                generation: RecordKeyRow.firstGeneration
            )
            .insertUnlessPresent(database)
            guard
                let existing = try RecordKeyRow.fetch(
                    database, container: container, name: protection.name)
            else {
                throw CommonError.damaged("the record key is not in the store after writing")
            }
            return existing.sealed
        }
        if existing == prepared.sealed, let key = prepared.session.opened { return key }
        return RecordKey(try await keystore.unseal(existing, for: prompt, authorizedBy: presence))
    }

    /// Seals under the class's policy. For a class without user verification, hardware that cannot
    /// seal without it uses the weakest policy that it has; any other policy that it cannot enforce
    /// is an error.
    func seal(
        _ secret: SecretBytes, _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> SealedSecret {
        do throws(CommonError) {
            return try await keystore.seal(
                secret, policy: protection.policy, for: prompt, authorizedBy: presence)
        } catch {
            guard error.code == .unsupported, protection.policy == .none,
                let least = try await keystore.capabilities().leastSealing, least != .none
            else { throw error }
            return try await keystore.seal(
                secret, policy: least, for: prompt, authorizedBy: presence)
        }
    }
}
