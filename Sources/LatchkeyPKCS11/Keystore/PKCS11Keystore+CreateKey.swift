internal import FoundationEssentials
public import Latchkey
internal import Synchronization

extension PKCS11Keystore {
    /// Creates a key on the token, or adopts the one that the URI names.
    ///
    /// For a PIN-protected key, `presence` is prompted for the token's current PIN. If only the security officer may create
    /// keys (YubiKey: with the management key), it is prompted for that first.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a policy that the token can't enforce and for a module that can't create
    ///   keys, `conflict` if the chosen slot is occupied, `notFound` if there is no key to adopt.
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        let operation = uri.namesKey ? "adopt a key" : "create a key"
        let snapshot = try await takeSnapshot(operation, for: uri.keyID)
        try snapshot.profile.check(request.policy, operation)
        guard request.policy.requirement != .none || snapshot.token.module.profile.signsWithoutLogin else {
            throw .unsupported(
                operation, "this module requires a login for every signature, even if the token does not",
                recovery: "Use the policy `pin`, or another module (OpenSC signs with slot 9e of a PIV card).")
        }
        let newKey =
            uri.namesKey
            ? try await adopt(request, snapshot, operation, presence)
            : try await generate(request, snapshot, operation, presence)
        let terms = KeyTerms(
            request.policy, on: snapshot.profile, needsTouch: newKey.attestation?.touch == .always)
        let blob = TokenKeyBlob(
            name: TokenName(snapshot.information, id: newKey.id), publicKey: newKey.publicKey, terms: terms,
            isAdopted: uri.namesKey, facts: KeyFacts(newKey.attributes),
            attestation: newKey.attestation?.certificates ?? [],
            binding: KeyBinding(id: request.id, label: request.label))
        return HardwareKey(
            id: request.id, backend: backend, policy: terms.policy, assurance: terms.assurance,
            publicKey: newKey.publicKey, label: request.label, createdAt: Date(),
            blob: try blob.serialized(operation))
    }

    private func generate(
        _ request: KeyRequest, _ snapshot: TokenSnapshot, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let slots = try await slots(for: request.policy, snapshot, operation)
        let pair = KeyPairRequest(
            id: try await freeID(in: slots, snapshot, operation), label: request.label ?? "Latchkey", use: .sign,
            isPrivate: request.policy.requirement != .none,
            alwaysAuthenticates: request.policy.requirement == .pin && request.policy.reuseSeconds == 0)
        if snapshot.token.module.profile.generator == .securityOfficer {
            return try await generateAsSecurityOfficer(pair, in: slots, request, snapshot, operation, presence)
        }
        let id = pair.id
        let hasRun = Mutex(false)
        let needsLogin = request.policy.requirement != .none
        return try await use(
            snapshot, under: request.policy, for: request.prompt, operation, presence
        ) { (session, proof) throws(CryptokiError) in
            // Only this call uses the ID: a key that has it when the closure runs again is from the first run.
            if hasRun.withLock({ hasRun in
                defer { hasRun = true }; return hasRun
            }) {
                try session.destroyKey(id: id)
            }
            try session.checkCancellation()
            let key = try session.generateWithPINAtUse(pair)
            return try session.destroyingOnError(key) { () throws(CryptokiError) in
                try session.selfTest(key, with: key.wantsProofAtUse ? proof : nil)
                guard key.attributes.isPrivate == needsLogin else {
                    throw CryptokiError(
                        .unsound,
                        reason: "the token created a key that \(needsLogin ? "needs no login" : "needs a login")")
                }
                return NewKey(key, attestation: nil)
            }
        }
    }

    /// Generates and tests a key in one session of the security officer, as a YubiKey requires; the test uses the user's PIN.
    ///
    /// The slot is chosen again after the prompts, during which another program may have created a key.
    private func generateAsSecurityOfficer(
        _ pair: KeyPairRequest, in slots: [PIVSlot]?, _ request: KeyRequest, _ snapshot: TokenSnapshot,
        _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let officer = try await officerProof(snapshot, for: request.prompt, operation, presence)
        let user = pair.isPrivate ? try await userProof(snapshot, for: request.prompt, operation, presence) : nil
        let hint = TouchHint(presence, for: request.prompt, on: snapshot.token.module.profile.family)
        if let user, case .pin = user { try await checkPIN(user, snapshot, operation) }
        return try await asSecurityOfficer(officer, snapshot, operation) { (session) throws(CryptokiError) in
            try session.checkCancellation()
            var pair = pair
            if let slots {
                guard let free = try session.firstFree(of: slots) else { throw .occupied(slots) }
                pair.id = free.id
            }
            let key = try session.generateWithPINAtUse(pair)
            return try session.destroyingOnError(key) { () throws(CryptokiError) in
                try hint.during { () throws(CryptokiError) in try session.selfTest(key, with: user) }
                return NewKey(key, attestation: try session.attestation(of: key))
            }
        }
    }

    /// Verifies the user's PIN before the token creates a key: with a wrong PIN that key could not be tested or deleted.
    private func checkPIN(
        _ proof: LoginProof, _ snapshot: TokenSnapshot, _ operation: String
    ) async throws(KeystoreError) {
        let login = snapshot.login
        try await inspect(snapshot.token, operation) { (session) throws(CryptokiError) in
            login.forget()
            try session.login(.user, with: proof)
            try session.logout()
        }
    }

    /// The slots of a PIV card that enforce a policy; nil for a token that accepts any `CKA_ID`.
    private func slots(
        for policy: AccessPolicy, _ snapshot: TokenSnapshot, _ operation: String
    ) async throws(KeystoreError) -> [PIVSlot]? {
        try await checkGeneration(snapshot, operation)
        guard snapshot.token.module.profile.identifiers == .slot else {
            if let slot = options.slot {
                throw .invalidInput(operation, "the token is not a PIV card and has no slot \(slot)")
            }
            return nil
        }
        guard snapshot.showsOccupiedSlots else {
            throw .unsupported(
                operation,
                "YubiKeys before firmware 5.3 do not report whether a slot holds a key, and would overwrite it",
                recovery:
                    "Create one with `ykman piv keys generate`, then adopt it by a URI with `id=`, for example `id=%01` "
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

    /// An unused `CKA_ID`: of the first free one of the slots, or 16 random bytes.
    private func freeID(
        in slots: [PIVSlot]?, _ snapshot: TokenSnapshot, _ operation: String
    ) async throws(KeystoreError) -> Data {
        guard let slots else {
            var generator = SystemRandomNumberGenerator()
            return Data((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
        }
        return try await inspect(snapshot.token, operation) { (session) throws(CryptokiError) in
            guard let free = try session.firstFree(of: slots) else { throw .occupied(slots) }
            return free.id
        }
    }

    /// Refuses, before any prompt, a token or module that is known not to generate keys.
    func checkGeneration(_ snapshot: TokenSnapshot, _ operation: String) async throws(KeystoreError) {
        let hasMechanism = try await inspect(snapshot.token, operation) { (session) throws(CryptokiError) in
            try session.supports(.ecKeyPairGeneration)
        }
        let module = snapshot.token.module.profile
        let isOpenSCsPIV = snapshot.profile.isPIV && module.family == .opensc
        guard hasMechanism, !isOpenSCsPIV, module.generator != .unavailable else {
            throw .unsupported(
                operation, "this module can't create P-256 keys on this token",
                recovery:
                    "Create one with the token's own tool (YubiKey: `ykman piv keys generate`), then adopt it by a "
                    + "URI with `id=`, for example `id=%01` for slot 9a.")
        }
    }
}

/// A key pair that was just generated or adopted, and the facts that the token reports about it.
struct NewKey: Sendable {
    let id: Data
    let publicKey: PublicKey
    let attributes: TokenKey.Attributes
    let attestation: PIVAttestation?

    init(_ key: TokenKey, attestation: PIVAttestation?) {
        id = key.id
        publicKey = key.publicKey
        attributes = key.attributes
        self.attestation = attestation
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

    /// Generates a key pair. Drops `CKA_ALWAYS_AUTHENTICATE` if the module does not accept it; the keystore then logs in for
    /// each single use.
    func generateWithPINAtUse(_ pair: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        var pair = pair
        pair.alwaysAuthenticates = pair.alwaysAuthenticates && profile.takesAlwaysAuthenticate
        return try generateKeyPair(pair)
    }

    /// Destroys a new key if `body` throws.
    fileprivate func destroyingOnError<R>(
        _ key: TokenKey, _ body: () throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        do {
            return try body()
        } catch {
            // The user must see the first error.
            try? destroyKey(id: key.id)
            throw error
        }
    }
}
