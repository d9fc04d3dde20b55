internal import FoundationEssentials
internal import HTTPTypes
public import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth
internal import Synchronization

/// A user's session on this device, and the encryption of data that only a session opens.
///
/// The status belongs to this program: after a restart a device is either enrolled or not. Calls
/// can be made from any task. Only one call that may prompt runs at a time; another fails with
/// `userInteractionInProgress`. Each call ends once, with the status or an error.
public final class Locker: Sendable {
    /// The configuration.
    package let configuration: LockerConfiguration
    let rows: LockerRows
    let keyring = LevelKeyring()
    let cache: SecretCache
    let changes = Broadcast<AuthSessionChange>()
    let state = Mutex(LockerState())
    private let issuer: Endpoint
    /// Proves the key to which the server binds tokens, after the first request for one.
    let dpopProver = Mutex<DPoPProver?>(nil)
    private let discovered = Mutex<ProviderMetadata?>(nil)

    /// Makes a locker without using the store, the hardware or the network. Call `open()` next.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `invalidConfiguration`.
    package init(_ configuration: LockerConfiguration) throws(ErsteGroupAuthError) {
        guard let issuer = Endpoint(configuration.issuer), !issuer.hasQuery else {
            throw .invalidConfiguration("issuer", "is neither an https address nor on this machine")
        }
        let checks = [
            ("clientID", "is empty", !configuration.clientID.isEmpty),
            ("scopes", "is empty", !configuration.scopes.isEmpty),
            (
                "easyAccessPolicy", "requires no user verification",
                configuration.easyAccessPolicy?.requirement != AccessPolicy.Requirement.none
            ),
            ("maximumAttempts", "allows no attempt", configuration.maximumAttempts >= 1),
            (
                "offlineVerification", "allows no attempt",
                configuration.offlineVerification?.maximumAttempts ?? 1 >= 1
            ),
            (
                "sessionIdleTimeout", "is not longer than zero",
                configuration.sessionIdleTimeout ?? .seconds(1) > .zero
            ),
        ]
        for (field, flaw, isValid) in checks where !isValid {
            throw .invalidConfiguration(field, flaw)
        }
        self.configuration = configuration
        self.issuer = issuer
        rows = LockerRows(records: configuration.records)
        cache = SecretCache(life: configuration.cachedSecretLife)
    }

    deinit {
        state.withLock { $0.idleTimer?.cancel() }
    }

    /// Reads the enrolment and unseals the parts that do not require user verification. Then the
    /// level `base` is open, and background access works without a prompt. Revokes destroyed
    /// enrolments at the server if that is still to be done.
    ///
    /// - Throws: ``ErsteGroupAuthError``; see ``ErsteGroupAuth/initializeLocker(_:)``.
    package func open() async throws(ErsteGroupAuthError) {
        let context = context("open the locker")
        try await call("initialize the locker") {
            let enrolment = try await rows.enrolment(
                for: context.prompt, authorizedBy: context.presence)
            if let enrolment { try checkConfiguration(of: enrolment) }
            let counters =
                enrolment == nil
                ? LockerCounters()
                : try await rows.counters(for: context.prompt, authorizedBy: context.presence)
            state.withLock { state in
                guard state.machine == nil else { return }
                state.machine = SessionMachine(
                    phase: enrolment == nil ? .unregistered : .enrolled,
                    hasEasyAccess: enrolment?.easyAccess != nil,
                    allowsOffline: configuration.offlineVerification != nil,
                    exhaustion: configuration.secretExhaustion)
                state.enrolment = enrolment
                state.counters = counters
                if let enrolment { keyring.adopt([.base: enrolment.baseKey], in: .enrolled) }
            }
            log(.info, "opened, \(authSessionStatus.phase)")
        }
        await finishDeletions(context)
    }

    // MARK: The status

    /// The current status. Does not use the hardware or the disk.
    package var authSessionStatus: AuthSessionStatus {
        lockIfIdle()
        return state.withLock { $0.status(configuration.offlineVerification) }
    }

    /// Whether ``endAuthSession(mode:)`` with `destroy` revokes the keys of `base` and `offline` in
    /// the hardware, so that no copy of the store opens them; nil without an enrolment. Does not
    /// use the hardware, and does not verify the store.
    public func isStoredRevocably() async throws(ErsteGroupAuthError) -> Bool? {
        try await call("read the status") { try await rows.isRevocable() }
    }

    /// Every change of the status from now on, each one once and in order.
    public var statusChanges: AsyncStream<AuthSessionChange> { changes.stream() }

    /// Whether a prompt or a page waits for the user now. ``dismissUI()`` can withdraw it.
    public func isUserInteractionInProgress() -> Bool { state.withLock { $0.prompts > 0 } }

    /// Runs the part of a call that waits for the user.
    func prompting<R, Failure: Error>(_ body: () async throws(Failure) -> R) async throws(Failure)
        -> R
    {
        state.withLock { $0.prompts += 1 }
        defer { state.withLock { $0.prompts -= 1 } }
        return try await body()
    }

    // MARK: For the other parts

    var now: Date { configuration.now() }

    func log(_ level: LogLevel, _ text: LogText) {
        (configuration.logger ?? StandardErrorLogger()).handleLogMessage(text.text, level: level)
    }

    func context(
        _ reason: String, metadata: [String: JSONValue]? = nil,
        options: StartAuthSessionOptions = StartAuthSessionOptions()
    ) -> FlowContext {
        FlowContext(
            metadata: metadata, options: options,
            presence: PresenceSession(options.presence ?? configuration.presence),
            prompt: PromptContext(
                reason: "\(reason) at \(issuer.authority)", container: configuration.records.name))
    }

    /// The enrolment.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `notEnrolled`.
    func enrolment() throws(ErsteGroupAuthError) -> Enrolment {
        guard let enrolment = state.withLock({ $0.enrolment }) else { throw .refusal(.notEnrolled) }
        return enrolment
    }

    /// The server. The discovery document is read once in the locker's lifetime.
    func server() async throws -> LockerServer {
        let known = discovered.withLock { $0 }
        let discovery =
            if let known { known } else {
                try await LockerServer.discover(at: issuer, configuration.transport)
            }
        discovered.withLock { $0 = discovery }
        return LockerServer(
            clientID: configuration.clientID, discovery: discovery,
            transport: configuration.transport, prover: dpopProver.withLock { $0 })
    }

    /// Makes an assertion that the hardware signs. A key without user verification does not prompt.
    ///
    /// - Parameters:
    ///   - challenge: nil to get one from the server.
    ///   - presence: nil for the authority of the call.
    func sign(
        _ action: LockerAssertion.Action, challenge: String? = nil, with key: HardwareKey,
        enrolmentID: String?,
        removing easyAccessKey: KeyID? = nil, at server: LockerServer, in context: FlowContext,
        authorizedBy presence: (any PresenceAuthority)? = nil
    ) async throws -> String {
        let challenge = if let challenge { challenge } else { try await server.challenge() }
        let assertion = LockerAssertion(
            action: action, issuer: server.discovery.issuer, enrolmentID: enrolmentID,
            challenge: challenge, key: key,
            issuedAt: now, metadata: context.metadata,
            device: action == .enrol ? configuration.device : nil,
            easyAccessKey: easyAccessKey)
        let input = try assertion.signingInput()
        // The device's key never prompts, whatever policy its stored row states.
        let isUserKey = action == .easyAccess || action == .easyAccessEnable
        let digest = MessageDigest(sha256: input.utf8)
        let keystore = configuration.records.keystore
        let signature =
            isUserKey && presence == nil
            ? try await prompting {
                try await keystore.sign(
                    digest, with: key, for: context.prompt, authorizedBy: context.presence)
            }
            : try await keystore.sign(
                digest, with: key, for: context.prompt,
                authorizedBy: isUserKey ? presence ?? NobodyPresent() : NobodyPresent())
        log(.debug, "signed \(action)")
        return JWS.compact(input, signature: signature)
    }

    /// Signs another key's assertion with the device key: 64 bytes in base64url. Does not prompt.
    func countersign(_ assertion: String, with deviceKey: HardwareKey, _ context: FlowContext)
        async throws -> String
    {
        let signature = try await configuration.records.keystore.sign(
            MessageDigest(sha256: LockerAssertion.countersigningInput(of: assertion).utf8),
            with: deviceKey,
            for: context.prompt, authorizedBy: NobodyPresent())
        return Base64URL.encode(signature.rawRepresentation)
    }

    /// Makes all changes or none. Does not prompt.
    func store(
        _ changes: [RecordChange], classes: [ClassChange] = [], _ context: FlowContext
    ) async throws(KeystoreError) -> [Record] {
        try await configuration.records.apply(
            changes, classes: classes, for: context.prompt, authorizedBy: NobodyPresent())
    }

    /// Completes the work even if the caller is cancelled.
    func finish<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) async throws -> T {
        try await Task { try await work() }.value
    }
}

/// A locker's state in memory, except for the level keys.
struct LockerState: Sendable {
    /// nil until the locker was opened.
    var machine: SessionMachine?
    var enrolment: Enrolment?
    var counters = LockerCounters()
    /// The token of an active session.
    var token: AccessToken?
    /// The token of background access.
    var narrowToken: AccessToken?
    /// Tokens of earlier background access in this session, which their callers may still use.
    var earlierNarrowTokens: [AccessToken] = []
    /// The number of prompts and pages that wait for the user.
    var prompts = 0
    /// The running call.
    var flow: Task<AuthSessionStatus, any Error>?
    /// The last use of the session.
    var lastUse: SessionUse?
    /// Locks the session when its time without use is over.
    var idleTimer: Task<Void, Never>?
    /// The running requests for background access. Concurrent callers with the same metadata share
    /// one.
    var background: [BackgroundRequest: Task<AuthSessionStatus, any Error>] = [:]

    func status(_ offline: OfflineVerification?) -> AuthSessionStatus {
        let phase = machine?.phase ?? .unregistered
        let hasEasyAccess = machine?.hasEasyAccess ?? false
        return AuthSessionStatus(
            phase: phase, isEasyAccessEnabled: hasEasyAccess,
            accessToken: phase.isActive ? token : phase == .backgroundAccess ? narrowToken : nil,
            offlineAttemptsLeft: hasEasyAccess
                ? offline.map { max(0, $0.maximumAttempts - counters.failures) } : nil)
    }

    /// Discards tokens, and the requests for background access, that do not belong to the current
    /// session.
    mutating func discardStale() {
        let phase = machine?.phase ?? .unregistered
        background = background.filter { request, task in
            if request.epoch != machine?.epoch { task.cancel() }
            return request.epoch == machine?.epoch
        }
        if !phase.isActive {
            token?.handle.close()
            token = nil
        }
        if !phase.isActive && phase != .backgroundAccess {
            for token in earlierNarrowTokens + [narrowToken].compactMap(\.self) {
                token.handle.close()
            }
            (narrowToken, earlierNarrowTokens) = (nil, [])
        }
    }

    /// Discards earlier tokens of background access that have expired.
    mutating func closeExpired(at now: Date) {
        for token in earlierNarrowTokens where token.isExpired(at: now) { token.handle.close() }
        earlierNarrowTokens.removeAll { $0.isExpired(at: now) }
    }
}

/// A request for background access.
struct BackgroundRequest: Hashable, Sendable {
    let metadata: [String: JSONValue]?
    /// The session in which it began.
    let epoch: Int
}

/// The values that one call gets from its caller.
struct FlowContext: Sendable {
    let metadata: [String: JSONValue]?
    let options: StartAuthSessionOptions
    /// Prompts at most once for the whole call.
    let presence: PresenceSession
    let prompt: PromptContext
}

/// The results of a call. They become the session's when the call succeeds.
struct SessionDraft: Sendable {
    /// The user who logged in.
    var userID: String?
    var token: AccessToken?
    /// The verified secret.
    var secret: PIN?
    var levels: [ProtectionLevel: LevelKey] = [:]
    /// The stored enrolment; nil if it has not changed. The inner nil means that it was deleted.
    var enrolment: Enrolment??
    var counters: LockerCounters?
}
