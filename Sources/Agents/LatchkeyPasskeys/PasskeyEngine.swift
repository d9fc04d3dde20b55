internal import Crypto
internal import FoundationEssentials
package import Latchkey

/// Answers CTAP requests with the keys of a keystore, the passkeys of a store, and prompts. It
/// knows no transport: a HID device (``PasskeyHIDDevice``) or another one passes it requests, one
/// at a time.
package actor PasskeyEngine {
    private let keystore: any PasskeyKeystore
    private let store: PasskeyStore
    private let prompt: any PasskeyPrompt
    /// The policy of new passkeys; nil for fingerprint or PIN, whichever the machine has.
    private let policy: AccessPolicy?
    private let clock: PasskeyClock
    private let requester: @Sendable () async -> String?
    private let onFailure: @Sendable (KeystoreError) -> Void
    private var authenticator: Authenticator
    private var isBusy = false
    private var session: PresenceSession?
    /// The key of the running registration, until its row is stored.
    private var unstoredKey: HardwareKey?

    /// - Parameters:
    ///   - store: An open store. New passkeys are stored in it.
    ///   - policy: The policy of new passkeys; nil for the keystore's default. A policy without
    ///     user verification is refused: the authenticator then reports that it cannot verify
    ///     users.
    ///   - requester: Returns the name of the program that has opened the device, for prompts.
    ///   - onFailure: Called with the error of a step that failed. Clients get a status only.
    package init(
        keystore: any PasskeyKeystore, store: PasskeyStore, prompt: any PasskeyPrompt,
        policy: AccessPolicy? = nil,
        aaguid: AAGUID = .hardware, clock: PasskeyClock = .continuous,
        requester: @escaping @Sendable () async -> String? = { nil },
        onFailure: @escaping @Sendable (KeystoreError) -> Void = { _ in }
    ) {
        self.keystore = keystore
        self.store = store
        self.prompt = prompt
        self.policy = policy
        self.clock = clock
        self.requester = requester
        self.onFailure = onFailure
        authenticator = Authenticator(aaguid: aaguid)
    }

    /// Answers a request: a command byte and a CBOR map. Cancel the task to end the request early;
    /// the prompt then closes, and the answer is `KEEPALIVE_CANCEL`.
    ///
    /// - Parameter report: Called with the state of the request when it changes.
    /// - Returns: The status, and a CBOR map if the status is 0. `CHANNEL_BUSY` while another
    ///   request runs.
    package func respond(
        to request: [UInt8], reporting report: @Sendable (KeepaliveStatus) async -> Void = { _ in }
    ) async -> [UInt8] {
        guard !isBusy else { return [CTAPStatus.channelBusy.rawValue] }
        isBusy = true
        authenticator.program = await requester()
        var step = authenticator.begin(request, at: clock.now())
        var reported = KeepaliveStatus.processing
        while true {
            if case .answer(let bytes) = step {
                await endRequest()
                return bytes
            }
            if authenticator.status != reported {
                reported = authenticator.status
                await report(reported)
            }
            let event = await perform(step, until: authenticator.deadline)
            step = authenticator.resume(event, at: clock.now())
        }
    }

    /// Attracts the user's attention.
    package func wink() async { await prompt.wink() }

    /// Performs a step, and ends it at the deadline or when the task is cancelled.
    private func perform(_ step: Authenticator.Step, until deadline: Duration?) async
        -> Authenticator.Event
    {
        guard !Task.isCancelled else { return .cancelled }
        guard let deadline else {
            let event = await effect(of: step)
            // A durable change is reported, although the client has cancelled.
            if case .stored = event { return event }
            return Task.isCancelled ? .cancelled : event
        }
        let clock = clock
        let event = await withTaskGroup(of: Authenticator.Event?.self) { group in
            group.addTask { await self.effect(of: step) }
            group.addTask {
                do {
                    try await clock.sleep(deadline)
                    return .timedOut
                } catch {
                    return nil
                }
            }
            var first: Authenticator.Event?
            while first == nil, let event = await group.next() { first = event }
            group.cancelAll()
            await group.waitForAll()
            return first
        }
        return Task.isCancelled ? .cancelled : event ?? .cancelled
    }

    private func effect(of step: Authenticator.Step) async -> Authenticator.Event {
        do throws(KeystoreError) {
            switch step {
            case .answer: return .cancelled
            case .inspect: return .state(await state())
            case .find(let rpID):
                return .found(try store.list().filter { $0.rpID == rpID }, count: try store.count())
            case .ask(let question, let key):
                return .chosen(
                    await prompt.choose(
                        question, promptsForPIN: { await self.promptsForPIN(question, key) }))
            case .hold:
                // Only the deadline or a cancellation ends it.
                while !Task.isCancelled { try? await clock.sleep(clock.now() + .seconds(3600)) }
                return .cancelled
            case .create(let creation): return try await create(creation)
            case .use(let use): return try await self.use(use)
            case .store(let passkey):
                let replaced = try store.add(passkey)
                unstoredKey = nil
                for earlier in replaced { try? await keystore.delete(earlier.key) }
                return .stored
            }
        } catch {
            onFailure(error)
            return .failed(error)
        }
    }

    // MARK: Hardware

    private func create(_ creation: PasskeyCreation) async throws(KeystoreError)
        -> Authenticator.Event
    {
        let policy = try await newPolicy(creation.question)
        let session = session(creation.question)
        let context = context(creation.question, account: 0)
        let key = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: context), authorizedBy: session)
        unstoredKey = key
        guard creation.wantsMACKey else { return .created(key: key, macKey: nil) }
        do throws(KeystoreError) {
            let macKey = try await keystore.createMACKey(
                policy: policy, for: context, authorizedBy: session)
            return .created(key: key, macKey: macKey)
        } catch {
            // The answer states that the passkey has no PRF.
            guard error.code == .unsupported else { throw error }
            return .created(key: key, macKey: nil)
        }
    }

    private func use(_ use: PasskeyUse) async throws(KeystoreError) -> Authenticator.Event {
        let (key, context) = (use.passkey.key, context(use.question, account: use.account))
        let session = session(use.question)
        do throws(KeystoreError) {
            if let macKey = use.passkey.macKey, !use.salts.isEmpty {
                let (signature, codes) = try await keystore.sign(
                    with: key, after: use.salts, with: macKey, for: context, authorizedBy: session,
                    digest: use.digest)
                return .used(signature, codes)
            }
            let signature = try await keystore.sign(
                use.digest([]), with: key, for: context, authorizedBy: session)
            return .used(signature, [])
        } catch {
            guard error.code == .cancelled, !Task.isCancelled else { throw error }
            onFailure(error)
            let choice = await prompt.refusal(of: use.question)
            return .chosen(choice == .notHere ? .notHere : .no)
        }
    }

    /// Deletes the keys of a registration that failed. Only a token holds parts of them.
    private func endRequest() async {
        session = nil
        if let abandoned = unstoredKey {
            unstoredKey = nil
            try? await keystore.delete(abandoned)
        }
        isBusy = false
    }

    /// The user verification of the running request: a PIN that the hardware accepted also answers
    /// its later prompts.
    private func session(_ question: PasskeyQuestion) -> PresenceSession {
        if let session { return session }
        let (keystore, store) = (keystore, store)
        let new = PresenceSession(prompt.verification(for: question), acceptsEarlierProof: false) {
            (context, presence) throws(KeystoreError) in
            // Without a presence broker each key has its own PIN on a TPM. All passkeys get the
            // same one.
            let withPIN = try store.list().first {
                $0.key.backend == keystore.backend && $0.key.policy.hasPIN
            }
            guard let existing = withPIN?.key else { return false }
            _ = try await keystore.sign(
                MessageDigest(sha256: Array("latchkey/passkeys/pin".utf8)), with: existing,
                for: context,
                authorizedBy: presence)
            return true
        }
        session = new
        return new
    }

    private func context(_ question: PasskeyQuestion, account: Int) -> PromptContext {
        store.prompt(question.reason(account: account))
    }

    // MARK: State

    private func state() async -> PasskeyState {
        let count = (try? store.count()) ?? 0
        guard let capabilities = try? await keystore.capabilities() else {
            return PasskeyState(canVerify: false, attemptsLeft: nil, count: count)
        }
        let status = try? await keystore.pinStatus()
        return PasskeyState(
            canVerify: await canVerify(capabilities, status), attemptsLeft: status?.attemptsLeft,
            count: count)
    }

    private func canVerify(_ capabilities: KeystoreCapabilities, _ status: PINStatus?) async -> Bool
    {
        let presence = verifyingAuthority
        let policy = await policy(on: capabilities, presence)
        guard policy.requirement != .none, capabilities.requirements.contains(policy.requirement)
        else { return false }
        if policy.hasFinger, await capabilities.fingerState(through: presence) == .ready {
            return true
        }
        return policy.hasPIN && status?.isLockedOut == false
    }

    /// Whether the verification of a login requests a PIN. A key without a PIN, or with a locked
    /// one, needs only a fingerprint.
    private func promptsForPIN(_ question: PasskeyQuestion, _ key: HardwareKey?) async -> Bool {
        guard case .signIn = question.purpose, let key, key.policy.hasPIN,
            let status = try? await keystore.pinStatus(of: .key(key))
        else { return false }
        return !status.isLockedOut
    }

    private var verifyingAuthority: any PresenceAuthority {
        prompt.verification(for: authenticator.question(.selectDevice, site: nil))
    }

    private func newPolicy(_ question: PasskeyQuestion) async throws(KeystoreError) -> AccessPolicy
    {
        let capabilities = try await keystore.capabilities()
        let policy = await policy(on: capabilities, session(question))
        guard policy.requirement != .none, capabilities.requirements.contains(policy.requirement)
        else {
            throw .unsupported(
                "this hardware cannot verify the user for a passkey",
                recovery: "Set a PIN, or enrol a fingerprint.")
        }
        return policy
    }

    private func policy(
        on capabilities: KeystoreCapabilities, _ presence: any PresenceAuthority
    ) async -> AccessPolicy {
        if let policy { return policy }
        return await capabilities.preferredPolicy(for: .signing, through: presence)
    }
}
