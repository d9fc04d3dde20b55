internal import FoundationEssentials
public import Latchkey
internal import Synchronization

extension PKCS11Keystore {
    /// Makes a key on the token, or adopts the one that the URI names.
    ///
    /// A token's PIN is its own: for a guarded key `presence` is asked for the current one. Where only the security
    /// officer may make keys (YubiKey: the management key), it is asked for that first.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a policy that the token can't enforce and for a module that makes no
    ///   keys, `conflict` when the chosen slot is taken, `notFound` when there is no key to adopt.
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = uri.namesKey ? "adopt a key" : "create a key"
        let sight = try await look(operation, for: uri.keyID)
        try sight.nature.check(request.policy, operation)
        guard request.policy.requirement != .none || sight.token.profile.signsWithoutLogin else {
            throw .unsupported(
                operation, "this module signs with no key before somebody logs in, whatever the token would do",
                recovery: "Use the policy `pin`, or another module (OpenSC signs with slot 9e of a PIV card).")
        }
        let born =
            uri.namesKey
            ? try await adopt(request, sight, operation, presence)
            : try await generate(request, sight, operation, presence)
        let needsTouch = born.attestation?.touch == .always
        let terms = KeyTerms(
            policy: request.policy,
            assurance: AssuranceLevel(
                root: sight.nature.root,
                presence: sight.nature.presence(request.policy.requirement, needsTouch: needsTouch)))
        let blob = TokenKeyBlob(
            name: TokenName(sight.information, id: born.id), publicKey: born.publicKey, terms: terms,
            isAdopted: uri.namesKey, facts: KeyFacts(born.attributes),
            attestation: born.attestation?.certificates ?? [],
            binding: KeyBinding(id: request.id, label: request.label))
        return HardwareKey(
            id: request.id, backend: backend, policy: terms.policy, assurance: terms.assurance,
            publicKey: born.publicKey, label: request.label, createdAt: Date(),
            blob: try serialized(blob, operation))
    }

    private func generate(
        _ request: KeyRequest, _ sight: TokenSight, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> BornKey {
        let slots = try await slots(for: request.policy, sight, operation)
        let pair = KeyPairRequest(
            id: try await freeID(in: slots, sight, operation), label: request.label ?? "Latchkey", use: .sign,
            isPrivate: request.policy.requirement != .none,
            alwaysAuthenticates: request.policy.requirement == .pin && request.policy.reuseSeconds == 0)
        if sight.token.profile.generator == .securityOfficer {
            return try await generateAsOfficer(pair, in: slots, request, sight, operation, presence)
        }
        let id = pair.id
        let hasRun = Mutex(false)
        let needsLogin = request.policy.requirement != .none
        return try await use(
            sight, under: request.policy, for: request.prompt, operation, presence
        ) { (session, proof) throws(CryptokiError) in
            // The id is this call's own: what is there when it runs again is from its first run.
            if hasRun.withLock({ hasRun in
                defer { hasRun = true }; return hasRun
            }) {
                try session.destroyKey(id: id)
            }
            try session.checkCancellation()
            let key = try session.generateStrictest(pair)
            return try session.keeping(key) { () throws(CryptokiError) in
                try session.prove(key, with: key.wantsProofAtUse ? proof : nil)
                guard key.attributes.isPrivate == needsLogin else {
                    throw CryptokiError(
                        .unsound, reason: "the token made a key that \(needsLogin ? "needs no" : "needs a") login")
                }
                return BornKey(key, attestation: nil)
            }
        }
    }

    /// As a YubiKey wants it: one session of the security officer generates and tests, the test with the user's PIN.
    ///
    /// The slot is chosen again after the prompts, during which another program may have made a key.
    private func generateAsOfficer(
        _ pair: KeyPairRequest, in slots: [PIVSlot]?, _ request: KeyRequest, _ sight: TokenSight, _ operation: String,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> BornKey {
        let officer = try await officerProof(sight, for: request.prompt, operation, presence)
        let user = pair.isPrivate ? try await userProof(sight, for: request.prompt, operation, presence) : nil
        let hint = TouchHint(presence, for: request.prompt, on: sight.token.profile.family)
        if case .pin = user { try await checkPIN(user, sight, operation) }
        return try await asOfficer(officer, sight, operation) { (session) throws(CryptokiError) in
            try session.checkCancellation()
            var pair = pair
            if let slots {
                guard let free = try session.firstFree(of: slots) else { throw .occupied(slots) }
                pair.id = free.id
            }
            let key = try session.generateStrictest(pair)
            return try session.keeping(key) { () throws(CryptokiError) in
                try hint.during { () throws(CryptokiError) in try session.prove(key, with: user) }
                return BornKey(key, attestation: try session.attestation(of: key))
            }
        }
    }

    /// Shows the token the user's PIN before it makes a key that could not be tested with a wrong one, nor be deleted.
    private func checkPIN(
        _ proof: LoginProof?, _ sight: TokenSight, _ operation: String
    ) async throws(KeystoreError) {
        guard let proof else { return }
        let login = sight.login
        try await visit(sight, operation) { (session) throws(CryptokiError) in
            login.forget()
            try session.login(.user, with: proof)
            try session.logout()
        }
    }

    /// The slots of a PIV card that enforce a policy; nil for a token that takes any `CKA_ID`.
    private func slots(
        for policy: AccessPolicy, _ sight: TokenSight, _ operation: String
    ) async throws(KeystoreError) -> [PIVSlot]? {
        try await checkGeneration(sight, operation)
        guard sight.token.profile.identifiers == .slot else {
            if let slot = options.slot {
                throw .invalidInput(operation, "the token is no PIV card and has no slot \(slot)")
            }
            return nil
        }
        guard sight.showsOccupiedSlots else {
            throw .unsupported(
                operation, "YubiKeys before firmware 5.3 don't tell whether a slot holds a key, and would overwrite it",
                recovery:
                    "Make one with `ykman piv keys generate`, then adopt it by a URI with `id=`, for example `id=%01` "
                    + "for slot 9a.")
        }
        let fitting = PIVSlot.candidates(for: policy)
        guard options.slot.map(fitting.contains) ?? true else {
            throw .unsupported(
                operation, "the slot \(options.slot?.description ?? "") can't enforce the policy ‘\(policy)’",
                recovery: "These can: \(fitting.map(\.description).joined(separator: ", ")).")
        }
        return options.slot.map { [$0] } ?? fitting
    }

    /// A `CKA_ID` under which nothing is yet: the first free one of those slots, or 16 random bytes.
    private func freeID(
        in slots: [PIVSlot]?, _ sight: TokenSight, _ operation: String
    ) async throws(KeystoreError) -> Data {
        guard let slots else {
            var generator = SystemRandomNumberGenerator()
            return Data((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
        }
        return try await visit(sight, operation) { (session) throws(CryptokiError) in
            guard let free = try session.firstFree(of: slots) else { throw .occupied(slots) }
            return free.id
        }
    }

    /// Refuses, before anybody is asked, what is known not to work.
    func checkGeneration(_ sight: TokenSight, _ operation: String) async throws(KeystoreError) {
        let hasMechanism = try await visit(sight, operation) { (session) throws(CryptokiError) in
            try session.supports(.ecKeyPairGeneration)
        }
        let isOpenSCsPIV = sight.nature.isPIV && sight.token.profile.family == .opensc
        guard hasMechanism, !isOpenSCsPIV, sight.token.profile.generator != .nobody else {
            throw .unsupported(
                operation, "this module makes no P-256 keys on this token",
                recovery: "Make one with the token's own tool (YubiKey: `ykman piv keys generate`), then adopt it by a "
                    + "URI with `id=`, for example `id=%01` for slot 9a.")
        }
    }

    /// Work that needs no private key.
    func visit<R: Sendable>(
        _ sight: TokenSight, _ operation: String, _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        do {
            return try await sight.token.perform(body)
        } catch {
            throw failure(error, operation, sight.token)
        }
    }

    /// Work as the security officer that generates a key: no other process of this user does so at the same time, and
    /// the session shows what is on the token now.
    func asOfficer<R: Sendable>(
        _ proof: LoginProof, _ sight: TokenSight, _ operation: String,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        let login = sight.login
        do {
            return try await sight.token.performExclusively { (session) throws(CryptokiError) in
                try session.asOfficer(proof, login) { () throws(CryptokiError) in try body(session) }
            }
        } catch {
            throw refusedManagementKey(error, operation, sight) ?? failure(error, operation, sight.token)
        }
    }

    func serialized(_ blob: TokenKeyBlob, _ operation: String) throws(KeystoreError) -> Data {
        do {
            return try DigestedStructure.serialized(blob)
        } catch {
            throw KeystoreError(
                operation: operation, code: .failed, reason: "what is to be stored can't be written: \(error)",
                recovery: "Report this with the token's model.")
        }
    }
}

extension CryptokiError {
    fileprivate static func occupied(_ slots: [PIVSlot]) -> CryptokiError {
        CryptokiError(
            .occupied,
            reason: "there is a key already in the slot\(slots.count > 1 ? "s" : "") "
                + slots.map(\.description).joined(separator: ", "))
    }
}

extension Session {
    fileprivate func firstFree(of slots: [PIVSlot]) throws(CryptokiError) -> PIVSlot? {
        for slot in slots where try !isOccupied(id: slot.id) { return slot }
        return nil
    }

    /// Generates; where the module has no `CKA_ALWAYS_AUTHENTICATE` the login for each single use takes its place.
    func generateStrictest(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        var pair = pair
        pair.alwaysAuthenticates = pair.alwaysAuthenticates && profile.takesAlwaysAuthenticate
        return try generateKeyPair(pair)
    }

    /// Destroys a new key when `body` finds fault with it.
    func keeping<R>(_ key: TokenKey, _ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        do {
            return try body()
        } catch {
            // What was found wrong is what the person must hear of.
            try? destroyKey(id: key.id)
            throw error
        }
    }
}
