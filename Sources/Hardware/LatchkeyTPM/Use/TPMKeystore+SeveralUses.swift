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
            let made = try await make(.macKey, policy: policy, prompt, presence)
            return SealedSecret(
                backend: backend, policy: policy, assurance: made.assurance,
                blob: try serialized(made.blob))
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
                guard (1...2).contains(messages.count), messages.allSatisfy({ $0.count == 32 })
                else { throw .invalidInput("a passkey's PRF has one or two inputs of 32 bytes") }
                let keys = try await passkey(key, macKey, prompt)
                // A reusable proof serves all uses, and a PIN is proven for each use in turn.
                let session = PresenceSession(presence)
                guard keys.macBlob.key.kind == .loadable else {
                    let use = keys.use(Unseal(try keys.macBlob.reference), as: .unseal)
                    return try await self.use(keys, [use], session, digest) { secrets in
                        // The secret computes the outputs here, in locked memory.
                        secrets.first.map { secret in
                            messages.map { secret.authenticationCode(for: $0) }
                        } ?? []
                    }
                }
                let reference = try keys.macBlob.reference
                let uses = messages.map {
                    keys.use(Hmac(of: Array($0), with: reference), as: .mac($0))
                }
                return try await self.use(keys, uses, session, digest) { $0 }
            }
        } catch { throw error.during("sign") }
    }

    private func passkey(
        _ key: HardwareKey, _ macKey: SealedSecret, _ prompt: PromptContext
    ) async throws(KeystoreError) -> PasskeyKeys {
        let (blob, root) = try await checkedBlob(of: key)
        guard macKey.policy == key.policy, !macKey.isRevocable else {
            throw .damaged("the keys of the passkey have different policies")
        }
        let macBlob = try macBlob(macKey)
        guard macBlob.parentName == root.name else {
            throw .damaged("the keys of the passkey have different parents")
        }
        try check(macKey.assurance, of: macKey.policy, macBlob.protection, under: root)
        return PasskeyKeys(
            key: key, blob: blob, macBlob: macBlob, root: root, prompt: prompt,
            authorization: try authorization(of: key, blob))
    }

    /// Decodes a MAC key, or the sealed secret in place of one.
    private func macBlob(_ macKey: SealedSecret) throws(KeystoreError) -> TPMKeyBlob {
        let decoded: TPMKeyBlob = try decoded(macKey.blob, backend: macKey.backend)
        guard decoded.key.kind == .loadable else { return try blob(macKey) }
        return try blob(macKey.blob, .macKey, policy: macKey.policy, backend: macKey.backend)
    }

    /// - Parameter outputs: Computes the outputs from the responses of `uses`.
    private func use<C: KeyCommand>(
        _ keys: PasskeyKeys, _ uses: [KeyUse<C>], _ presence: PresenceSession,
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest,
        _ outputs: ([SecretBytes]) -> [SecretBytes]
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes])
    where C.Response == SensitiveData {
        guard keys.key.policy.hasFinger, keys.key.policy.reuseSeconds == 0,
            presence.preference != .pin
        else { return try await useInTurn(keys, uses, presence, digest, outputs) }
        return try await useTogether(keys, uses, presence, digest, outputs)
    }

    // MARK: In turn

    /// Uses each key with its own proof. The session repeats an accepted PIN.
    private func useInTurn<C: KeyCommand>(
        _ keys: PasskeyKeys, _ uses: [KeyUse<C>], _ presence: PresenceSession,
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest,
        _ outputs: ([SecretBytes]) -> [SecretBytes]
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes])
    where C.Response == SensitiveData {
        var secrets: [SecretBytes] = []
        for use in uses {
            secrets.append(SecretBytes(try await perform(use, authorizedBy: presence)))
        }
        let codes = outputs(secrets)
        let digest = try digest(codes)
        let answer = try await perform(keys.signing(digest), authorizedBy: presence)
        return (try Self.verified(answer, of: digest, by: keys.key), codes)
    }

    // MARK: With one fingerprint

    /// Opens a session for each use, and gets all approvals with one fingerprint. A PIN that the
    /// user enters instead is proven for each use.
    private func useTogether<C: KeyCommand>(
        _ keys: PasskeyKeys, _ uses: [KeyUse<C>], _ presence: PresenceSession,
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest,
        _ outputs: ([SecretBytes]) -> [SecretBytes]
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes])
    where C.Response == SensitiveData {
        guard let first = uses.first else { throw .invalidInput("there is no use") }
        let permitsPIN = keys.key.policy.hasPIN && presence.preference == .any
        guard let broker = presence.broker?.approvals else {
            guard !permitsPIN else {
                return try await useInTurn(keys, uses, presence, digest, outputs)
            }
            throw KeystoreError(
                code: .unavailable, reason: "this program cannot reach the presence broker",
                recovery: "Install and start latchkey-presenced.")
        }
        let status = permitsPIN ? try await status(of: first.protection) : nil
        do throws(KeystoreError) {
            try await checkCurrent(first, broker)
        } catch {
            guard permitsPIN else { throw error }
            return try await useInTurn(keys, uses, presence, digest, outputs)
        }
        var waiting: [PreparedSession] = []
        do throws(KeystoreError) {
            for use in uses { waiting.append(try await preparedSession(for: use)) }
            // The digest is not part of the session.
            let signing = try keys.signing(MessageDigest(sha256: []))
            waiting.append(try await preparedSession(for: signing))
            var request = request(for: first, in: waiting[0])
            for (use, session) in zip(uses, waiting).dropFirst() {
                let own = self.request(for: use, in: session)
                request.further.append(
                    .init(use: own.use, keyName: own.keyName, nonceTPM: own.nonceTPM))
            }
            let last = self.request(for: signing, in: waiting[uses.count])
            request.further.append(
                .init(use: nil, keyName: last.keyName, nonceTPM: last.nonceTPM))
            let answer: PresenceAnswer
            if let status, !status.isLockedOut {
                answer = try await presence.offer(
                    request, to: broker,
                    or: PINRequest(
                        purpose: .current, context: keys.prompt, attemptsLeft: status.attemptsLeft)
                )
            } else {
                answer = PresenceAnswer(try await broker.approve(request))
            }
            switch answer {
            case .approved(let approval) where !Task.isCancelled:
                return try await use(keys, uses, approval, broker, &waiting, digest, outputs)
            case .pin(let pin) where !Task.isCancelled:
                await abandon(&waiting)
                let given = PresenceSession(
                    presence, acceptsEarlierProof: false, preferring: .pin, firstPIN: pin)
                return try await useInTurn(keys, uses, given, digest, outputs)
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
    private func use<C: KeyCommand>(
        _ keys: PasskeyKeys, _ uses: [KeyUse<C>], _ approval: PresenceApproval,
        _ broker: any ApprovalService, _ waiting: inout [PreparedSession],
        _ digest: ([SecretBytes]) throws(KeystoreError) -> MessageDigest,
        _ outputs: ([SecretBytes]) -> [SecretBytes]
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes])
    where C.Response == SensitiveData {
        let signatures = [approval.signature] + approval.further
        guard let ticket = approval.ticket, signatures.count == uses.count,
            waiting.count == signatures.count + 1
        else {
            throw KeystoreError(
                code: .refused, reason: "the presence broker's answer is not valid",
                recovery: "Ask an administrator to check latchkey-presenced.")
        }
        var secrets: [SecretBytes] = []
        for (use, signature) in zip(uses, signatures) {
            let own = PresenceApproval(expiration: approval.expiration, signature: signature)
            secrets.append(
                SecretBytes(try await self.use(use, own, in: waiting.removeFirst())))
        }
        let codes = outputs(secrets)
        let digest = try digest(codes)
        let use = try keys.signing(digest)
        let last = try await broker.complete(ticket, use.request)
        let answer = try await self.use(use, last, in: waiting.removeFirst())
        return (try Self.verified(answer, of: digest, by: keys.key), codes)
    }

    private func use<C>(
        _ use: KeyUse<C>, _ approval: PresenceApproval, in session: PreparedSession
    ) async throws(KeystoreError) -> C.Response {
        do {
            return try await send(use, with: .approval(session, approval)).response
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
private struct PasskeyKeys: Sendable {
    let key: HardwareKey
    let blob: TPMKeyBlob
    let macBlob: TPMKeyBlob
    let root: StorageRoot
    let prompt: PromptContext
    let authorization: RevocableSecret?

    /// A use of the MAC key, or of the sealed secret.
    func use<C>(_ command: C, as request: ApprovalRequest.Use) -> KeyUse<C> {
        KeyUse(
            command: command, request: request, blob: macBlob, policy: key.policy, root: root,
            prompt: prompt)
    }

    func signing(_ digest: MessageDigest) throws(KeystoreError) -> KeyUse<Sign> {
        try KeyUse(
            signing: digest, with: blob, policy: key.policy, under: root, prompt: prompt,
            authorization: authorization)
    }
}
