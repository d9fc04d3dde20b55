internal import FoundationEssentials
package import Latchkey

/// The effects of an authenticator, with the keys of a keystore, the passkeys of a store, and
/// prompts.
package struct PasskeyEngine: PasskeyEffects {
    private let keystore: any PasskeyKeystore
    private let store: PasskeyStore
    private let prompt: any PasskeyPrompt
    private let policy: @Sendable () throws(KeystoreError) -> AccessPolicy?
    package let clock: PasskeyClock
    private let findOpeners: @Sendable () async -> DeviceOpeners?
    private let onFailure: @Sendable (KeystoreError) -> Void

    /// - Parameters:
    ///   - store: An open store. New passkeys are stored in it.
    ///   - policy: Returns the policy of a new passkey: nil for the keystore's default, which is
    ///     fingerprint or PIN, whichever the machine has. It is called for each one. With an error,
    ///     or a policy without user verification, none is created, and the authenticator reports
    ///     that it cannot verify users.
    ///   - openers: Returns the programs that have opened the device; nil if they are unknown.
    ///   - onFailure: Called with the error of a step that failed. Clients get a status only.
    package init(
        keystore: any PasskeyKeystore, store: PasskeyStore, prompt: any PasskeyPrompt,
        policy: @escaping @Sendable () throws(KeystoreError) -> AccessPolicy? = { nil },
        clock: PasskeyClock = .continuous,
        openers: @escaping @Sendable () async -> DeviceOpeners? = { nil },
        onFailure: @escaping @Sendable (KeystoreError) -> Void = { _ in }
    ) {
        self.keystore = keystore
        self.store = store
        self.prompt = prompt
        self.policy = policy
        self.clock = clock
        findOpeners = openers
        self.onFailure = onFailure
    }

    package func openers() async -> DeviceOpeners? { await findOpeners() }

    package func wink() async { await prompt.wink() }

    /// The status for a failure. The error is reported, because clients get a status only.
    private func status(of error: KeystoreError) -> CTAPStatus {
        onFailure(error)
        return CTAPStatus(error)
    }

    /// Uses the hardware for a question that the user has accepted, with a second attempt. The user
    /// is told why the use failed.
    private func use<Value: Sendable>(
        for question: PasskeyQuestion, authorizedBy presence: PresenceSession,
        _ body: @Sendable () async throws(KeystoreError) -> Value
    ) async throws(CTAPStatus) -> Value {
        do throws(KeystoreError) {
            return try await presence.withSecondAttempt(body)
        } catch {
            if error.code != .cancelled, !Task.isCancelled {
                await prompt.report(error, of: question)
            }
            throw status(of: error)
        }
    }

    // MARK: User

    package func choose(
        _ question: PasskeyQuestion, using key: HardwareKey?
    ) async -> PasskeyChoice {
        await prompt.choose(question) {
            // A key without a PIN, or with a locked one, needs only a fingerprint.
            guard case .signIn = question.purpose, let key, key.policy.hasPIN,
                let status = try? await keystore.pinStatus(of: .key(key))
            else { return false }
            return !status.isLockedOut
        }
    }

    package func refusal(of question: PasskeyQuestion) async -> PasskeyChoice {
        await prompt.refusal(of: question)
    }

    package func verification(for question: PasskeyQuestion) -> PresenceSession {
        let (keystore, store) = (keystore, store)
        return PresenceSession(prompt.verification(for: question), acceptsEarlierProof: false) {
            (context, presence) throws(KeystoreError) in
            // Without a presence broker each key has its own PIN on a TPM. All passkeys get the
            // same one.
            let withPIN = try store.list().first {
                $0.key.backend == keystore.backend && $0.key.policy.hasPIN
            }
            guard let existing = withPIN?.key else { return false }
            _ = try await keystore.sign(
                MessageDigest(sha256: Array("latchkey/passkeys/pin".utf8)), with: existing,
                for: context, authorizedBy: presence)
            return true
        }
    }

    private func context(_ question: PasskeyQuestion, account: Int = 0) -> PromptContext {
        store.prompt(question.reason(account: account))
    }

    // MARK: Keys

    package func createKeys(
        withMACKey: Bool, for question: PasskeyQuestion, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> (key: HardwareKey, macKey: SealedSecret?) {
        try await use(for: question, authorizedBy: presence) { () throws(KeystoreError) in
            guard let policy = try await newPolicy(on: keystore.capabilities(), presence)
            else {
                throw .unsupported(
                    "this hardware cannot verify the user for a passkey",
                    recovery: "Set a PIN, or enrol a fingerprint.")
            }
            let context = context(question)
            let key = try await keystore.createKey(
                KeyRequest(policy: policy, prompt: context), authorizedBy: presence)
            guard withMACKey else { return (key, nil) }
            do throws(KeystoreError) {
                let macKey = try await keystore.createMACKey(
                    policy: policy, for: context, authorizedBy: presence)
                return (key, macKey)
            } catch {
                // The answer states that the passkey has no PRF.
                if error.code == .unsupported { return (key, nil) }
                await discard(key)
                throw error
            }
        }
    }

    package func sign(
        _ use: PasskeyUse, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> ECDSASignature {
        let (key, context) = (use.passkey.key, context(use.question, account: use.account))
        return try await self.use(for: use.question, authorizedBy: presence) {
            () throws(KeystoreError) in
            guard let macKey = use.passkey.macKey, !use.salts.isEmpty else {
                return try await keystore.sign(
                    use.digest([]), with: key, for: context, authorizedBy: presence)
            }
            return try await keystore.sign(
                with: key, after: use.salts, with: macKey, for: context, authorizedBy: presence,
                digest: use.digest
            ).signature
        }
    }

    package func discard(_ key: HardwareKey) async { try? await keystore.delete(key) }

    // MARK: Records

    package func passkeys(
        of rpID: String
    ) throws(CTAPStatus) -> (found: [Passkey], count: Int) {
        do throws(KeystoreError) {
            return (try store.list().filter { $0.rpID == rpID }, try store.count())
        } catch {
            throw status(of: error)
        }
    }

    package func add(_ passkey: Passkey) async throws(CTAPStatus) {
        do throws(KeystoreError) {
            for earlier in try store.add(passkey) { await discard(earlier.key) }
        } catch {
            throw status(of: error)
        }
    }

    // MARK: State

    package func state() async -> PasskeyState {
        let count = (try? store.count()) ?? 0
        guard let capabilities = try? await keystore.capabilities() else {
            return PasskeyState(canVerify: false, methods: [], attemptsLeft: nil, count: count)
        }
        let status = try? await keystore.pinStatus()
        let methods = await prompt.canPrompt() ? methods(capabilities) : []
        let canUsePIN = methods.contains(.passcode) && status?.isLockedOut == false
        return PasskeyState(
            canVerify: methods.contains(.fingerprint) || canUsePIN, methods: methods,
            attemptsLeft: status?.attemptsLeft, count: count)
    }

    private func methods(_ capabilities: KeystoreCapabilities) async -> VerificationMethods {
        let question = PasskeyQuestion(
            purpose: .selectDevice, site: nil, accounts: [], usesPRF: false, openers: nil,
            timeLimit: Authenticator.questionTime)
        let presence = prompt.verification(for: question)
        let created: AccessPolicy?
        do throws(KeystoreError) {
            created = try await newPolicy(on: capabilities, presence)
        } catch {
            onFailure(error)
            return []
        }
        guard let policy = created else { return [] }
        var methods: VerificationMethods = policy.hasPIN ? .passcode : []
        if policy.hasFinger, await capabilities.fingerState(through: presence) == .ready {
            methods.insert(.fingerprint)
        }
        return methods
    }

    /// The policy of a new passkey; nil if the hardware cannot verify the user.
    private func newPolicy(
        on capabilities: KeystoreCapabilities, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> AccessPolicy? {
        var chosen = try policy()
        if chosen == nil {
            chosen = await capabilities.preferredPolicy(for: .signing, through: presence)
        }
        guard let chosen, chosen.requirement != .none,
            capabilities.requirements.contains(chosen.requirement)
        else { return nil }
        return chosen
    }
}

extension CTAPStatus {
    /// The status for a failure of the hardware or the store. A wrong PIN is never `other`:
    /// Chromium would drop the device.
    fileprivate init(_ error: KeystoreError) {
        self =
            switch error.code {
            case .wrongProof: .verificationInvalid
            case .lockedOut: .verificationBlocked
            case .cancelled: .operationDenied
            default: .other
            }
    }
}
