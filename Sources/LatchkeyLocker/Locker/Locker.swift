internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

/// A user's session on this device, and the sensitive data that it opens.
///
/// The status is that of this program: after a restart a device is enrolled or not, and nothing more. Calls may be made
/// from any task. One that may ask somebody runs at a time; another is refused with `userInteractionInProgress`. Each
/// call ends once, with the status or an error.
public final class Locker: Sendable {
    /// What it was initialized with.
    public let configuration: LockerConfiguration
    let rows: LockerRows
    let keyring = LevelKeyring()
    let cache: SecretCache
    let changes = Broadcast<AuthSessionChange>()
    let state = Mutex(LockerState())
    private let issuer: Endpoint
    private let discovered = Mutex<ProviderMetadata?>(nil)

    /// Makes a locker. Nothing is touched yet; ``open()`` is next.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `invalidConfiguration`.
    public init(_ configuration: LockerConfiguration) throws(ErsteGroupAuthError) {
        guard let issuer = Endpoint(configuration.issuer), !issuer.path.contains("?") else {
            throw .invalidConfiguration("issuer", "is neither an https address nor on this machine")
        }
        guard !configuration.clientID.isEmpty else { throw .invalidConfiguration("clientID", "is empty") }
        guard !configuration.scopes.isEmpty else { throw .invalidConfiguration("scopes", "has none") }
        guard configuration.easyAccessPolicy.requirement != .none else {
            throw .invalidConfiguration("easyAccessPolicy", "asks for nobody")
        }
        if let offline = configuration.offlineVerification, offline.maximumAttempts < 1 {
            throw .invalidConfiguration("offlineVerification", "allows for no attempt")
        }
        if let timeout = configuration.sessionIdleTimeout, timeout <= .zero {
            throw .invalidConfiguration("sessionIdleTimeout", "leaves no time")
        }
        self.configuration = configuration
        self.issuer = issuer
        rows = LockerRows(records: configuration.records)
        cache = SecretCache(life: configuration.cachedSecretLife)
    }

    deinit {
        state.withLock { $0.idleTimer?.cancel() }
    }

    /// Reads what is stored and unseals what needs nobody, so that the level `base` is open and background access asks
    /// nobody. Tells the server of destroyed enrolments that it has not heard of.
    ///
    /// - Throws: ``ErsteGroupAuthError``; see ``ErsteGroupAuth/initializeLocker(_:)``.
    public func open() async throws(ErsteGroupAuthError) {
        let context = context("initialize the locker", "open the locker")
        do {
            let enrolment = try await rows.enrolment(for: context.prompt, authorizedBy: context.consent)
            if let enrolment { try check(enrolment, context.operation) }
            let counters =
                enrolment == nil
                ? LockerCounters() : try await rows.counters(for: context.prompt, authorizedBy: context.consent)
            state.withLock { state in
                guard state.machine == nil else { return }
                state.machine = SessionMachine(
                    phase: enrolment == nil ? .unregistered : .enrolled, hasEasyAccess: enrolment?.easyAccess != nil,
                    allowsOffline: configuration.offlineVerification != nil,
                    exhaustion: configuration.secretExhaustion)
                state.enrolment = enrolment
                state.counters = counters
                if let enrolment { keyring.adopt([.base: enrolment.baseKey], in: .enrolled) }
            }
            log(.info, "opened, \(authSessionStatus.phase)")
        } catch {
            throw ErsteGroupAuthError(context.operation, any: error)
        }
        await tidyUp(context)
    }

    // MARK: The status

    /// How the session stands. Touches neither hardware nor disk.
    public var authSessionStatus: AuthSessionStatus {
        lockIfIdle()
        return state.withLock { $0.status(configuration.offlineVerification) }
    }

    /// Whether this device is enrolled, and whether by easy access, without opening anything: needs no hardware, and
    /// verifies nothing.
    public func storedStatus() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        do throws(KeystoreError) {
            let (isEnrolled, hasEasyAccess) = try await rows.glance()
            return AuthSessionStatus(
                phase: isEnrolled ? .enrolled : .unregistered, isEasyAccessEnabled: hasEasyAccess, accessToken: nil,
                offlineAttemptsLeft: nil)
        } catch {
            throw ErsteGroupAuthError("read the status", error)
        }
    }

    /// Whether ``endAuthSession(mode:)`` with `destroy` has the hardware take `base` and `offline` back, so that no copy of
    /// the store opens them; nil without an enrolment. Needs no hardware, and verifies nothing.
    public func isStoredRevocably() async throws(ErsteGroupAuthError) -> Bool? {
        do throws(KeystoreError) {
            return try await rows.isRevocable()
        } catch {
            throw ErsteGroupAuthError("read the status", error)
        }
    }

    /// Every change of the status from now on, once each, in order.
    public var statusChanges: AsyncStream<AuthSessionChange> { changes.stream() }

    /// Whether somebody may be looking at a prompt or a page.
    public var isUserInteractionInProgress: Bool { state.withLock { $0.machine?.isInteracting ?? false } }

    // MARK: For the other parts

    var now: Date { configuration.now() }

    func log(_ level: LogLevel, _ text: LogText) {
        guard level >= configuration.logLevel else { return }
        (configuration.logger ?? StandardErrorLogger()).handleLogMessage(text.text, level: level)
    }

    func context(
        _ operation: String, _ reason: String, metadata: [String: JSONValue]? = nil,
        options: StartAuthSessionOptions = StartAuthSessionOptions()
    ) -> FlowContext {
        FlowContext(
            operation: operation, metadata: metadata, options: options,
            consent: OnePINConsent(options.presence ?? configuration.presence),
            prompt: PromptContext(
                reason: "\(reason) at \(issuer.authority)", container: configuration.records.name))
    }

    /// The enrolment.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `notEnrolled`.
    func enrolment(_ operation: String) throws(ErsteGroupAuthError) -> Enrolment {
        guard let enrolment = state.withLock({ $0.enrolment }) else { throw .refusal(operation, .notEnrolled) }
        return enrolment
    }

    /// The server, for one operation. Its discovery document is read once in the life of the locker.
    func server(_ operation: String) async throws(ErsteGroupAuthError) -> LockerServer {
        let known = discovered.withLock { $0 }
        let discovery =
            if let known { known } else {
                try await LockerServer.discover(at: issuer, configuration.transport, operation)
            }
        discovered.withLock { $0 = discovery }
        return LockerServer(
            operation: operation, clientID: configuration.clientID, discovery: discovery,
            transport: configuration.transport)
    }

    /// An assertion, signed by the hardware.
    func sign(
        _ action: LockerAssertion.Action, challenge: String?, with key: HardwareKey, enrolmentID: String?,
        removing easyAccessKey: KeyID? = nil, _ server: LockerServer, _ context: FlowContext,
        authorizedBy presence: (any PresenceAuthority)? = nil
    ) async throws -> String {
        let assertion = LockerAssertion(
            action: action, issuer: server.discovery.issuer, enrolmentID: enrolmentID, challenge: challenge, key: key,
            issuedAt: now, metadata: action == .revoke ? nil : context.metadata,
            device: action == .enrol ? configuration.device : nil, easyAccessKey: easyAccessKey)
        let input = try assertion.signingInput()
        let signature = try await configuration.records.keystore.sign(
            MessageDigest(sha256: input.utf8), with: key, for: context.prompt,
            authorizedBy: presence ?? context.consent)
        log(.debug, "signed \(action)")
        return JWS.compact(input, signature: signature)
    }

    /// The device's word that it wants another key's assertion: 64 bytes in base64url. Nobody is asked.
    func countersign(_ assertion: String, with deviceKey: HardwareKey, _ context: FlowContext) async throws -> String {
        let signature = try await configuration.records.keystore.sign(
            MessageDigest(sha256: LockerAssertion.countersigningInput(of: assertion).utf8), with: deviceKey,
            for: context.prompt, authorizedBy: NobodyPresent())
        return Base64URL.encode(signature.rawRepresentation)
    }

    /// Makes all changes or none, and asks nobody.
    func store(
        _ changes: [RecordChange], classes: [ClassChange] = [], _ context: FlowContext
    ) async throws(KeystoreError) -> [Record] {
        try await configuration.records.apply(
            changes, classes: classes, for: context.prompt, authorizedBy: NobodyPresent())
    }

    /// Carries something to its end although the caller has lost interest.
    func finish<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) async throws -> T {
        try await Task { try await work() }.value
    }
}
