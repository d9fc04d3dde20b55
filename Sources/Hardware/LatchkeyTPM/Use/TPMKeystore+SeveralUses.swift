internal import Crypto
package import FoundationEssentials
package import Latchkey
internal import TPM2

/// A passkey's keys: a signing key, and a MAC key under the same policy.
extension TPMKeystore: PasskeyKeystore {
    package func createMACKey(
        policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        guard try await withTPM({ (tpm) throws(TPMError) in try tpm.hasCommand(.hmac) }) else {
            return try await seal(
                .random(count: 32), policy: policy, for: prompt, authorizedBy: presence)
        }
        do throws(KeystoreError) {
            try checkSupport(policy)
            let root = try await presentRoot()
            let protection = try await protection(
                for: policy, certifies: false, under: root, prompt, presence)
            guard policy.fits(protection) else {
                throw .unsupported(
                    "a TPM cannot reuse the proof of a key's own PIN",
                    recovery: "Omit the reuse time, or use a policy with a fingerprint only.")
            }
            let pin = policy.hasOwnPIN(protection) ? try await newPIN(prompt, presence) : nil
            let salt = pin == nil ? nil : PINHardening.randomSalt()
            let authValue = try KeystoreError.explaining { () throws(TPMError) in
                if let own = protection?.ownAuthValue { return own }
                return try PINHardening.ownAuthValue(pin, salt: salt, boundTo: nil)
            }
            let template = try KeystoreError.explaining { () throws(TPMError) in
                try KeyTemplates.macKey(policy, protection)
            }
            let created = try await createObject(template, authValue: authValue, under: root)
            if pin != nil { presence.accepted() }
            let blob = TPMKeyBlob(
                created, .loadable, hasEmptyAuth: policy.requirement == .none, under: root,
                pinSalt: salt,
                protection: protection)
            return SealedSecret(
                backend: backend, policy: policy,
                assurance: Self.assurance(of: policy, protection, under: root),
                blob: try serialized(blob))
        } catch { throw error.during("create a key") }
    }

    package func sign(
        with key: HardwareKey, after messages: [Data], with macKey: SealedSecret,
        for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        do throws(KeystoreError) {
            return try await device.operate { () async throws(KeystoreError) in
                let group = try await keyGroup(key, messages, macKey, prompt)
                // A reusable proof serves all uses, and a PIN is proven for each use in turn.
                let session = PresenceSession(presence)
                guard key.policy.hasFinger, key.policy.reuseSeconds == 0,
                    presence.preference != .pin
                else {
                    return try await useInTurn(group, session, digest)
                }
                return try await useTogether(group, session, digest)
            }
        } catch { throw error.during("sign") }
    }

    private func keyGroup(
        _ key: HardwareKey, _ messages: [Data], _ macKey: SealedSecret, _ prompt: PromptContext
    ) async throws(KeystoreError) -> KeyGroup {
        guard (1...2).contains(messages.count), messages.allSatisfy({ $0.count == 32 }) else {
            throw .invalidInput("a passkey's PRF has one or two inputs of 32 bytes")
        }
        let (blob, root) = try await checkedBlob(of: key)
        guard macKey.policy == key.policy, !macKey.isRevocable else {
            throw .damaged("the keys of the passkey have different policies")
        }
        let macBlob = try macBlob(macKey)
        guard macBlob.parentName == root.name else {
            throw .damaged("the keys of the passkey have different parents")
        }
        try check(macKey.assurance, of: macKey.policy, macBlob.protection, under: root)
        let isSealed = macBlob.key.kind == .sealed
        let uses: [ApprovalRequest.Use] = isSealed ? [.unseal] : messages.map { .mac($0) }
        return KeyGroup(
            key: key, blob: blob, authorization: try authorization(of: key, blob), root: root,
            prompt: prompt,
            messages: messages,
            secretUses: uses.map {
                KeyUse(blob: macBlob, policy: key.policy, use: $0, root: root, prompt: prompt)
            })
    }

    /// Decodes a MAC key, or the sealed secret in place of one.
    private func macBlob(_ macKey: SealedSecret) throws(KeystoreError) -> TPMKeyBlob {
        let decoded: TPMKeyBlob = try decoded(macKey.blob, backend: macKey.backend)
        guard decoded.key.kind == .loadable else { return try blob(macKey) }
        let (policy, protection) = (macKey.policy, decoded.protection)
        let template = try KeystoreError.explaining { () throws(TPMError) in
            try KeyTemplates.macKey(policy, protection)
        }
        guard policy.fits(protection), decoded.key.publicArea.isMade(from: template),
            decoded.binding == nil,
            (decoded.pinSalt?.count == PINHardening.saltBytes) == policy.hasOwnPIN(protection)
        else { throw .damaged("the stored bytes of the key or secret do not match its policy") }
        return decoded
    }

    // MARK: In turn

    /// Uses each key with its own proof. The session repeats an accepted PIN.
    private func useInTurn(
        _ group: KeyGroup, _ presence: PresenceSession,
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        var secrets: [SecretBytes] = []
        for use in group.secretUses {
            secrets.append(try await perform(use, authorizedBy: presence, KeyGroup.body(of: use)))
        }
        let codes = group.codes(secrets)
        let digest = try digest(codes)
        let signature = try await perform(
            group.signing(digest), authorizedBy: presence, group.signingBody(digest))
        return (try Self.verified(signature), codes)
    }

    private static func verified(_ signature: ECDSASignature?) throws(KeystoreError)
        -> ECDSASignature
    {
        guard let signature else {
            throw KeystoreError(
                TPMError(.forged, command: .sign, reason: "the signature is not the key's"))
        }
        return signature
    }

    // MARK: With one fingerprint

    /// Opens a session for each use, and gets all approvals with one fingerprint. A PIN that the
    /// user enters instead is proven for each use.
    private func useTogether(
        _ group: KeyGroup, _ presence: PresenceSession,
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        guard let first = group.secretUses.first else { throw .invalidInput("there is no use") }
        let permitsPIN = group.key.policy.hasPIN && presence.preference == .any
        guard let broker = presence.broker?.approvals else {
            guard !permitsPIN else { return try await useInTurn(group, presence, digest) }
            throw KeystoreError(
                code: .unavailable, reason: "this program cannot reach the presence broker",
                recovery: "Install and start latchkey-presenced.")
        }
        let status = permitsPIN ? try await status(of: first.protection) : nil
        do throws(KeystoreError) {
            try await checkCurrent(first, broker)
        } catch {
            guard permitsPIN else { throw error }
            return try await useInTurn(group, presence, digest)
        }
        var waiting: [PreparedSession] = []
        do throws(KeystoreError) {
            // The digest is not part of the session.
            let uses = group.secretUses + [group.signing(MessageDigest(sha256: []))]
            for use in uses { waiting.append(try await preparedSession(for: use)) }
            var request = try request(for: first, in: waiting[0])
            for (use, session) in zip(uses, waiting).dropFirst() {
                let own = try self.request(for: use, in: session)
                request.further.append(
                    .init(
                        use: use.isSignature ? nil : own.use, keyName: own.keyName,
                        nonceTPM: own.nonceTPM))
            }
            let answer: PresenceAnswer
            if let status, !status.isLockedOut {
                answer = try await presence.offer(
                    request, to: broker,
                    or: PINRequest(
                        purpose: .current, context: group.prompt, attemptsLeft: status.attemptsLeft)
                )
            } else {
                answer = PresenceAnswer(try await broker.approve(request))
            }
            switch answer {
            case .approved(let approval) where !Task.isCancelled:
                return try await use(group, approval, broker, &waiting, digest)
            case .pin(let pin) where !Task.isCancelled:
                await abandon(&waiting)
                let given = PresenceSession(
                    presence, acceptsEarlierProof: false, preferring: .pin, firstPIN: pin)
                return try await useInTurn(group, given, digest)
            case .approved, .pin: throw .cancelled()
            case .notRecognised: throw .otherFinger()
            case .declined(let why): throw .cancelled(why)
            }
        } catch {
            await abandon(&waiting)
            throw error
        }
    }

    /// Uses the keys with approvals, in the order of their sessions.
    private func use(
        _ group: KeyGroup, _ approval: PresenceApproval, _ broker: any ApprovalService,
        _ waiting: inout [PreparedSession],
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        let signatures = [approval.signature] + approval.further
        guard let ticket = approval.ticket, signatures.count == group.secretUses.count,
            waiting.count == signatures.count + 1
        else {
            throw KeystoreError(
                code: .refused, reason: "the presence broker's answer is not valid",
                recovery: "Ask an administrator to check latchkey-presenced.")
        }
        var secrets: [SecretBytes] = []
        for (use, signature) in zip(group.secretUses, signatures) {
            let own = PresenceApproval(expiration: approval.expiration, signature: signature)
            secrets.append(
                try await self.use(use, own, in: waiting.removeFirst(), KeyGroup.body(of: use)))
        }
        let codes = group.codes(secrets)
        let digest = try digest(codes)
        let use = group.signing(digest)
        let last = try await broker.complete(ticket, use.use)
        let signature = try await self.use(
            use, last, in: waiting.removeFirst(), group.signingBody(digest))
        return (try Self.verified(signature), codes)
    }

    private func use<Response, R: Sendable>(
        _ use: KeyUse, _ approval: PresenceApproval, in session: PreparedSession,
        _ body: UseBody<Response, R>
    ) async throws(KeystoreError) -> R {
        do {
            return try await send(use, with: .approval(session, approval), body).result
        } catch {
            if error.precedesResumption { await abandon(session) }
            throw await explainUse(error, use)
        }
    }

    private func abandon(_ sessions: inout [PreparedSession]) async {
        for session in sessions { await abandon(session) }
        sessions = []
    }
}

/// The keys of one operation with a passkey.
private struct KeyGroup: Sendable {
    let key: HardwareKey
    let blob: TPMKeyBlob
    let authorization: RevocableSecret?
    let root: StorageRoot
    let prompt: PromptContext
    let messages: [Data]
    /// One HMAC for each message, or one opening of the sealed secret.
    let secretUses: [KeyUse]

    func signing(_ digest: MessageDigest) -> KeyUse {
        KeyUse(
            blob: blob, policy: key.policy,
            use: blob.scheme == .null ? .sign(digest) : .signNamingScheme(digest),
            root: root, prompt: prompt, authorization: authorization)
    }

    func signingBody(_ digest: MessageDigest) -> UseBody<TPMSignature, ECDSASignature?> {
        TPMKeystore.signing(digest, with: key, blob.scheme)
    }

    /// The outputs for the messages. The hardware computed them, or the secret computes them here,
    /// in locked memory.
    func codes(_ secrets: [SecretBytes]) -> [SecretBytes] {
        guard secretUses.first?.use == .unseal, let secret = secrets.first else { return secrets }
        return messages.map { secret.authenticationCode(for: $0) }
    }

    static func body(of use: KeyUse) -> UseBody<SecretBytes, SecretBytes> {
        UseBody { (tpm, object, authorization) throws(TPMError) in
            guard case .mac(let message) = use.use else {
                return try tpm.unseal(object, authorizedBy: authorization(.encrypt)) {
                    SecretBytes(copying: $0)
                }
            }
            return try tpm.hmac(
                of: Array(message), with: object, authorizedBy: authorization(.encrypt)
            ) {
                SecretBytes(copying: $0)
            }
        } result: {
            $0
        }
    }
}

extension KeyUse {
    fileprivate var isSignature: Bool {
        switch use {
        case .sign, .signNamingScheme: true
        case .unseal, .mac: false
        }
    }
}
