import FoundationEssentials
import Latchkey
import LatchkeyLocker
import LatchkeyServices
import Logging

/// The container's locker for one command.
struct LockerSession {
    let locker: Locker
    let records: RecordContainer
    private let context: CommandContext
    /// Whether a PIN or finger is enough without a network.
    private let allowsOffline: Bool

    /// Creates the locker without opening it.
    ///
    /// - Parameter allowsOffline: Whether a PIN or finger is enough without a network, for data
    ///   that decrypts without the server.
    /// - Throws: ``KeystoreError`` with code `invalidInput` if the configured server is missing or
    ///   not valid.
    init(
        in context: CommandContext, policy: AccessPolicy? = nil,
        levelShares: LevelSharePolicy = .required,
        allowsOffline: Bool = false
    ) async throws {
        let server = try context.identityServer()
        let policy = try context.settings.policy(policy)
        let records = try await context.records()
        // The server's address as the enrolment spells it.
        let stored = (try? await StoredEnrolment(of: records))?.issuer
        locker = try Locker(
            LockerConfiguration(
                issuer: stored.flatMap { ServerAddress.isSame($0, server.endpoint) ? $0 : nil }
                    ?? server.endpoint,
                clientID: server.clientID, records: records,
                presence: context.presence, channel: BrowserChannel(context.browser),
                transport: ServerTransport(log: context.log, console: context.console),
                easyAccessPolicy: policy,
                levelShares: levelShares,
                offlineVerification: allowsOffline ? OfflineVerification() : nil,
                logger: LockerLog(context.log), disclosesHardware: context.discloses))
        self.records = records
        self.context = context
        self.allowsOffline = allowsOffline
    }

    init(in context: CommandContext, _ options: LockerArguments, allowsOffline: Bool) async throws {
        try await self.init(
            in: context, policy: options.policy?.policy,
            levelShares: options.withoutShares ? .whenOffered : .required,
            allowsOffline: allowsOffline)
    }

    /// A session for data of a level.
    init(in context: CommandContext, _ options: LockerArguments, for level: ProtectionLevel)
        async throws
    {
        try await self.init(
            in: context, options, allowsOffline: options.allowOffline && level == .offline)
    }

    // MARK: The enrolment

    /// The stored enrolment with the configured server; nil if this machine is not enrolled.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `environmentChanged` for an enrolment with
    ///   another server.
    func storedEnrolment() async throws -> StoredEnrolment? {
        guard let enrolment = try await StoredEnrolment(of: records) else { return nil }
        let configuration = locker.configuration
        guard enrolment.issuer == configuration.issuer, enrolment.clientID == configuration.clientID
        else {
            throw ErsteGroupAuthError(
                code: .environmentChanged,
                reason:
                    "this machine is enrolled with \(enrolment.issuer) for the client ‘\(enrolment.clientID)’",
                recovery: "Set these with --endpoint and --client-id, or use another --container.")
        }
        return enrolment
    }

    /// The enrolment, for commands that do not enrol. Does not prompt.
    @discardableResult
    func enrolment() async throws -> StoredEnrolment {
        guard let enrolment = try await storedEnrolment() else { throw Self.notEnrolled }
        return enrolment
    }

    static let notEnrolled = ErsteGroupAuthError(
        code: .notEnrolled, reason: "this machine is not enrolled",
        recovery: "Enrol it with ‘latchkey locker start’.")

    /// Checks before the login that easy access can be set up here.
    ///
    /// - Throws: ``KeystoreError`` with the code that the hardware would return after the login.
    func checkPresence() async throws {
        let policy = await locker.easyAccessPolicy(through: context.presence)
        let isToken = context.settings.token != nil
        // A token may have its own PIN pad.
        if policy.hasPIN, !isToken, let obstacle = context.pinObstacle() { throw obstacle }
        // A finger opens a key of a TPM that has both.
        if policy == .pin || (policy.hasPIN && isToken),
            let lockout = try await context.lockout(of: records.keystore)
        {
            throw lockout
        }
        guard policy != .pin, !isToken else { return }
        guard let broker = context.presence.broker?.approvals else {
            throw KeystoreError.invalidInput("this program uses no presence broker")
        }
        _ = try await broker.terms(for: policy)
    }

    // MARK: The session

    /// Runs an operation on the opened locker, then locks it.
    func opened<R>(for level: ProtectionLevel? = nil, _ body: (Locker) async throws -> R)
        async throws -> R
    {
        try await locker.open()
        let hadEasyAccess = locker.authSessionStatus.isEasyAccessEnabled
        do {
            let result = try await body(locker)
            await lock()
            return result
        } catch let error as ErsteGroupAuthError {
            let isGone = hadEasyAccess && !locker.authSessionStatus.isEasyAccessEnabled
            await lock()
            throw withToolRecovery(error, level, isEasyAccessGone: isGone)
        } catch {
            await lock()
            throw error
        }
    }

    /// Starts the session that the level requires, and runs an operation in it.
    func started<R>(for level: ProtectionLevel, _ body: (Locker) throws -> R) async throws -> R {
        try await opened(for: level) { locker in
            switch level {
            case .base: break
            case .background: try await locker.backgroundAccess()
            case .offline, .active: try await locker.startAuthSession()
            }
            return try body(locker)
        }
    }

    /// Locks the session. Without an enrolment, locking fails harmlessly.
    private func lock() async {
        _ = try? await locker.endAuthSession(mode: .lock)
    }

    /// The same error, with a recovery that names the tool's commands.
    private func withToolRecovery(
        _ error: ErsteGroupAuthError, _ level: ProtectionLevel?, isEasyAccessGone: Bool
    ) -> ErsteGroupAuthError {
        switch error.code {
        case .wrongSecret where isEasyAccessGone:
            error.with(
                reason:
                    "\(error.reason); after too many wrong PINs, easy access is now disabled",
                recovery:
                    "Log in with ‘latchkey locker start’. When ‘latchkey pin status’ shows attempts left, set a PIN with "
                    + "‘latchkey locker easy-access enable’.")
        case .network where level == .active:
            error.with(
                recovery:
                    "Check the network and the server, then try again. Only the levels ‘offline’ and ‘base’ work without the server."
            )
        case .network where level != .background && !allowsOffline:
            error.with(
                recovery:
                    "Check the network and the server, then try again. With --allow-offline, your PIN or finger alone decrypts "
                    + "data of the level ‘offline’.")
        default: error
        }
    }
}

/// Logs the locker's messages with `--verbose`.
struct LockerLog: LatchkeyLocker.Logger {
    private let log: Logging.Logger

    init(_ log: Logging.Logger) { self.log = log }

    func handleLogMessage(_ message: String, level: LogLevel) {
        // The command itself reports failures.
        log.debug("locker: \(message)")
    }
}
