internal import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// Creates a key on the token, or adopts the one that the URI names.
    ///
    /// For a PIN-protected key, `presence` is prompted for the token's current PIN. If only the
    /// security officer may create keys (YubiKey: with the management key), it is prompted for that
    /// first.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a policy that the token can't enforce and for a
    ///   module that can't create keys, `conflict` if the chosen slot is occupied, `notFound` if
    ///   there is no key to adopt.
    public func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        do throws(KeystoreError) {
            try KeyRequest.check(label: request.label)
            guard request.form == .fixedScheme else {
                throw .unsupported(
                    "only a TPM creates keys for the attestation of WebAuthn",
                    recovery: "Create the key without this form, or in a TPM.")
            }
            let (snapshot, place) = try await prepareCreation(request.policy)
            let newKey =
                if let place {
                    try await generate(request, in: place, snapshot, presence)
                } else {
                    try await adopt(request, snapshot, presence)
                }
            let (key, attestation) = (newKey.key, newKey.attestation)
            let terms = snapshot.profile.terms(request.policy, attestation, isNew: !uri.namesKey)
            let blob = TokenKeyBlob(
                name: TokenName(snapshot.information, id: key.id),
                publicKeyHash: key.publicKey.fingerprint,
                terms: terms, isAdopted: uri.namesKey,
                alwaysAuthenticates: key.wantsProofAtUse,
                attestation: attestation?.certificates ?? [],
                binding: KeyBinding(id: request.id, label: request.label))
            return HardwareKey(
                id: request.id, backend: backend, policy: terms.policy, assurance: terms.assurance,
                publicKey: key.publicKey, label: request.label, createdAt: Date(),
                blob: try blob.serialized())
        } catch {
            throw error.during(uri.namesKey ? "adopt a key" : "create a key")
        }
    }

    /// - Returns: The token, and the place for a new key; nil if the URI names a key to adopt.
    func prepareCreation(
        _ policy: AccessPolicy?
    ) async throws(KeystoreError) -> (TokenSnapshot, NewKeyPlace?) {
        let snapshot = try await takeSnapshot(for: uri.keyID, label: uri.keyLabel)
        let policy = policy ?? (snapshot.profile.verifiesUserItself ? .userPresence : .pin)
        try snapshot.profile.check(policy)
        guard policy.requirement != .none || snapshot.module.signsWithoutLogin else {
            throw .unsupported(
                "this module requires a login for every signature, even if the token does not",
                recovery:
                    "Use the policy `pin`, or another module (OpenSC signs with slot 9e of a PIV card)."
            )
        }
        try await checkSignatures(snapshot)
        guard uri.namesKey else {
            let slots = try await slots(for: policy, snapshot)
            return (snapshot, NewKeyPlace(slots: slots, id: try await freeID(in: slots, snapshot)))
        }
        if let id = uri.keyID, snapshot.publicKey == nil, !snapshot.mayHideKeys(under: policy) {
            try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.checkKeyType(id: id)
            }
            throw .noKeyToAdopt
        }
        if let id = uri.keyID, snapshot.publicKey != nil {
            try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.checkOrigin(id: id)
            }
        }
        return (snapshot, nil)
    }

    private func generate(
        _ request: KeyRequest, in place: NewKeyPlace, _ snapshot: TokenSnapshot,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let slots = place.slots
        let needsLogin = request.policy.requirement != .none
        let pair = KeyPairRequest(
            id: place.id, label: request.label ?? "Latchkey", use: .sign,
            isPrivate: needsLogin,
            // If the token does not support it, the keystore logs in for each single use.
            alwaysAuthenticates: request.policy.requirement == .pin
                && request.policy.reuseSeconds == 0)
        if snapshot.module.generator == .securityOfficer {
            return try await generateAsSecurityOfficer(pair, in: slots, request, snapshot, presence)
        }
        return try await use(
            snapshot, under: request.policy, for: request.prompt, presence
        ) { (session, proof) throws(CryptokiError) in
            // Only this call uses the ID: a key that has it when the closure runs again is from the
            // first run.
            if session.isRepeated { try session.destroyKey(id: pair.id) }
            try session.checkCancellation()
            do throws(CryptokiError) {
                return try session.generateTestedKey(pair, proof)
            } catch {
                guard error.kind == .noContextLogin, error.leftover == nil else { throw error }
                var pair = pair
                pair.alwaysAuthenticates = false
                return try session.generateTestedKey(pair, proof)
            }
        }
    }

    /// Generates and tests a key in one session of the security officer, as a YubiKey requires; the
    /// test uses the user's PIN.
    ///
    /// The slot is chosen again after the prompts, during which another program may have created a
    /// key.
    private func generateAsSecurityOfficer(
        _ pair: KeyPairRequest, in slots: [PIVSlot]?, _ request: KeyRequest,
        _ snapshot: TokenSnapshot,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let officer = try await officerProof(snapshot, for: request.prompt, presence)
        let user =
            pair.isPrivate ? try await userProof(snapshot, for: request.prompt, presence) : nil
        // With a wrong PIN the new key could not be tested or deleted.
        if let user, case .pin = user { try await checkPIN(user, snapshot, presence) }
        let attempt = GenerationAttempt(in: slots ?? [], for: pair.use)
        return try await asSecurityOfficer(officer, snapshot, attempt) {
            (session) throws(CryptokiError) in
            try session.checkCancellation()
            var pair = pair
            if slots != nil {
                let slot = try session.firstFree(of: attempt.candidates)
                pair.id = slot.id
                attempt.begin(slot)
            }
            let key = try session.generateKeyPair(pair)
            return try session.destroyingOnError(key.id) { () throws(CryptokiError) in
                try TouchHint(presence, for: request.prompt, on: session).during {
                    () throws(CryptokiError) in
                    try session.selfTest(key, with: user)
                }
                return NewKey(
                    key: key, attestation: try session.attestation(of: key.publicKey, id: key.id))
            }
        }
    }

    private func checkPIN(
        _ proof: LoginProof, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        do {
            try await snapshot.token.withLogin(.user, proof) { (_) throws(CryptokiError) in }
        } catch {
            throw await explained(error, snapshot, presence)
        }
        presence.accepted()
    }

    /// The slots of a PIV card that enforce a policy; nil for a token that accepts any `CKA_ID`.
    private func slots(
        for policy: AccessPolicy, _ snapshot: TokenSnapshot
    ) async throws(KeystoreError) -> [PIVSlot]? {
        try await checkGeneration(snapshot)
        guard snapshot.module.usesSlotIDs else {
            if let slot = options.slot {
                throw .invalidInput("the token is not a PIV card and has no slot \(slot)")
            }
            return nil
        }
        guard snapshot.showsOccupiedSlots else {
            throw .unsupported(
                "YubiKeys before firmware 5.3 do not report whether a slot holds a key, and would overwrite it",
                recovery:
                    "Create one with `ykman piv keys generate`, then adopt it by a URI with `id=`, for example `id=%01` "
                    + "for slot 9a.")
        }
        let fitting = PIVSlot.candidates(for: policy)
        guard let slot = options.slot else { return fitting }
        guard slot != .keyManagement else {
            throw .unsupported(
                "the slot 9d is reserved for the key that seals secrets",
                recovery:
                    "Choose one of these: \(fitting.map(\.description).joined(separator: ", ")).")
        }
        guard fitting.contains(slot) else {
            throw .unsupported(
                "the slot \(slot) can't enforce the policy ‘\(policy)’",
                recovery: "These can: \(fitting.map(\.description).joined(separator: ", ")).")
        }
        return [slot]
    }

    /// An unused `CKA_ID`: of the first free one of the slots, or 16 random bytes.
    private func freeID(in slots: [PIVSlot]?, _ snapshot: TokenSnapshot) async throws(KeystoreError)
        -> Data
    {
        guard let slots else { return SecretBytes.random(count: 16).withUnsafeBytes { Data($0) } }
        return try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.firstFree(of: slots).id
        }
    }

    private func checkSignatures(_ snapshot: TokenSnapshot) async throws(KeystoreError) {
        let signs = try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.supports(.ecdsa)
        }
        guard signs else {
            throw .unsupported(
                "this module can't sign with P-256 keys on this token (it has no CKM_ECDSA)",
                recovery:
                    "Use another token, or a version of the module that supports elliptic curves.")
        }
    }

    /// Refuses, before any prompt, a token or module that is known not to generate keys.
    func checkGeneration(_ snapshot: TokenSnapshot) async throws(KeystoreError) {
        let hasMechanism = try await snapshot.token.inspect { (session) throws(CryptokiError) in
            try session.supports(.ecKeyPairGeneration)
        }
        // OpenSC shows the mechanism for cards on which it can't create keys: PIV and OpenPGP
        // cards, which it shows as PKCS#15.
        let isEmulated = snapshot.module.family == .opensc && snapshot.information.isEmulated
        guard hasMechanism, !isEmulated else {
            throw .unsupported(
                "this module can't create P-256 keys on this token",
                recovery: snapshot.profile.isPIV
                    ? "Use the card's own module (YubiKey: `module-path=` of libykcs11.so); or create a key with the "
                        + "card's own tool, then adopt it by a URI with `id=`, for example `id=%01` for slot 9a."
                    : "Create one with the token's own program (OpenPGP card: `gpg --card-edit`), then adopt it by a URI "
                        + "with its `id=`, for example `id=%03` for the authentication key of an OpenPGP card."
            )
        }
        guard !snapshot.information.isNSS else { throw KeystoreError(.filesOfNSS) }
        guard !snapshot.information.flags.contains(.writeProtected) else {
            throw KeystoreError(
                CryptokiError(.tokenWriteProtected, from: "C_GetTokenInfo"),
                profile: snapshot.module)
        }
        if let obstacle = snapshot.token.module.files?.obstacle(
            to: Session.generation, serial: snapshot.information.serial)
        {
            throw KeystoreError(obstacle, profile: snapshot.module)
        }
        if snapshot.module.generator == .securityOfficer { try await checkOfficer(snapshot) }
    }
}

extension PKCS11Keystore {
    /// Adopts a key that is on the token already, after the checks that a new key gets, if the
    /// token enforces exactly the requested policy.
    private func adopt(
        _ request: KeyRequest, _ snapshot: TokenSnapshot, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> NewKey {
        let (id, label) = (uri.keyID, uri.keyLabel)
        let newKey: NewKey
        do {
            newKey = try await use(
                snapshot, under: request.policy, for: request.prompt, presence
            ) { (session, proof) throws(CryptokiError) in
                let key = try session.key(id: id, label: label)
                guard (1...64).contains(key.id.count) else {
                    throw CryptokiError(
                        .unsupported,
                        reason: "the key's CKA_ID has \(key.id.count) bytes, not 1 to 64",
                        recovery:
                            "Give the public and the private half of the key the same CKA_ID of 1 to 64 bytes."
                    )
                }
                try session.checkProtection(of: key)
                try session.checkOrigin(id: key.id)
                try TouchHint(presence, for: request.prompt, on: session).during {
                    () throws(CryptokiError) in
                    try session.selfTest(key, with: key.wantsProofAtUse ? proof : nil)
                }
                return NewKey(
                    key: key, attestation: try session.attestation(of: key.publicKey, id: key.id))
            }
        } catch {
            // Without a login a private key is invisible.
            let isOpen = request.policy.requirement == .none
            guard error.code == .notFound || isOpen && error.code == .passcodeNotSet else {
                throw error
            }
            guard snapshot.publicKey == nil else {
                throw isOpen ? mismatch(needsLogin: true) : error
            }
            throw .noKeyToAdopt
        }
        let needsLogin = newKey.needsLogin(on: snapshot.profile)
        guard needsLogin == (request.policy.requirement != .none) else {
            throw mismatch(needsLogin: needsLogin)
        }
        guard request.policy.reuseSeconds == 0 || newKey.key.attributes.alwaysAuthenticates != true
        else {
            throw .unsupported(
                "the token requires the PIN for each use of this key",
                recovery: "Omit the reuse time.")
        }
        return newKey
    }

    private func mismatch(needsLogin: Bool) -> KeystoreError {
        .unsupported(
            needsLogin
                ? "the token requires a PIN for this key" : "the token uses this key without a PIN",
            recovery: needsLogin
                ? "Use the policy `pin`." : "Use the policy `none`, or a key that needs the PIN.")
    }
}

/// The place for a new key: its `CKA_ID`, and the slots of a PIV card from which it was chosen.
struct NewKeyPlace {
    /// nil for a token that accepts any `CKA_ID`.
    let slots: [PIVSlot]?
    let id: Data
}

extension KeystoreError {
    fileprivate static var noKeyToAdopt: KeystoreError {
        .notFound(
            "the token has no P-256 key by that name",
            recovery: Recovery(
                "Name one of its keys, or name only the token to create a new key.", .listTokenKeys)
        )
    }
}
