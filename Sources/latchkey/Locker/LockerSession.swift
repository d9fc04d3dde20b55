import FoundationEssentials
import Latchkey
import LatchkeyLocker

/// The container's locker, for one command.
struct LockerSession {
    let locker: Locker
    let records: RecordContainer
    private let context: CommandContext
    /// Whether a PIN or finger does while there is no network.
    private let allowsOffline: Bool

    /// Nothing is opened yet.
    ///
    /// - Parameter allowsOffline: Only where something that is wanted opens without the server.
    /// - Throws: ``KeystoreError`` with code `invalidInput` when no server is named, or one that none can be.
    init(
        in context: CommandContext, policy: AccessPolicy = .pin, levelShares: LevelSharePolicy = .required,
        allowsOffline: Bool = false
    ) async throws {
        let server = try context.identityServer()
        let records = try await context.records()
        // The enrolment's own spelling of the same address.
        let stored = (try? await StoredEnrolment(of: records))?.issuer
        locker = try Locker(
            LockerConfiguration(
                issuer: stored.flatMap { ServerAddress.isSame($0, server.endpoint) ? $0 : nil } ?? server.endpoint,
                clientID: server.clientID, records: records,
                presence: context.presence, channel: BrowserChannel(context.browser),
                transport: ServerTransport(log: context.log, console: context.console), easyAccessPolicy: policy,
                levelShares: levelShares,
                offlineVerification: allowsOffline ? OfflineVerification() : nil,
                logger: LockerLog(context.log)))
        self.records = records
        self.context = context
        self.allowsOffline = allowsOffline
    }

    init(in context: CommandContext, _ options: LockerOptions, allowsOffline: Bool) async throws {
        try await self.init(
            in: context, policy: options.policy.policy, levelShares: options.withoutShares ? .whenOffered : .required,
            allowsOffline: allowsOffline)
    }

    /// A session for data of a level.
    init(in context: CommandContext, _ options: LockerOptions, for level: ProtectionLevel) async throws {
        try await self.init(in: context, options, allowsOffline: options.allowOffline && level == .offline)
    }

    // MARK: The enrolment

    /// The enrolment with the configured server, as it is stored; nil where there is none.
    ///
    /// - Throws: ``ErsteGroupAuthError`` with code `environmentChanged` for one with another server.
    func storedEnrolment(_ operation: String) async throws -> StoredEnrolment? {
        guard let enrolment = try await StoredEnrolment(of: records) else { return nil }
        let configuration = locker.configuration
        guard enrolment.issuer == configuration.issuer, enrolment.clientID == configuration.clientID else {
            throw ErsteGroupAuthError(
                operation: operation, code: .environmentChanged,
                reason: "this machine is enrolled with \(enrolment.issuer) for the client ‘\(enrolment.clientID)’",
                recovery: "Name those with --endpoint and --client-id, or use another --container.")
        }
        return enrolment
    }

    /// The enrolment, for commands that do not mean to enrol. Nobody has been asked yet.
    @discardableResult
    func enrolment(_ operation: String) async throws -> StoredEnrolment {
        guard let enrolment = try await storedEnrolment(operation) else { throw Self.notEnrolled(operation) }
        return enrolment
    }

    static func notEnrolled(_ operation: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .notEnrolled, reason: "this machine is not enrolled",
            recovery: "Enrol it with ‘latchkey locker start’.")
    }

    /// Finds out whether the proof of easy access can be set up here, before anybody logs in for it.
    ///
    /// - Throws: ``KeystoreError`` with the code that the hardware would give after the login.
    func checkPresence() async throws {
        // A token may ask at a reader of its own.
        guard context.settings.token.uri == nil else { return }
        let policy = locker.configuration.easyAccessPolicy
        if policy.hasPIN, let obstacle = context.pinObstacle() { throw obstacle }
        if policy == .pin { try await checkLockout() }
        guard policy != .pin else { return }
        guard let broker = context.presence.broker?.approvals else {
            throw KeystoreError.invalidInput("set up easy access", "this program uses no presence broker")
        }
        _ = try await broker.terms(for: policy)
    }

    /// Sees to it that the hardware takes PINs: while it does not, it keeps no new one either.
    private func checkLockout() async throws(KeystoreError) {
        let status = try await records.keystore.pinStatus()
        guard status.isLockedOut else { return }
        let until = status.lockedOutUntil.map { ", by \($0.formatted(.iso8601)) at the latest" } ?? ""
        throw KeystoreError(
            operation: "set up easy access", code: .lockedOut,
            reason: "the hardware takes no PIN after too many wrong ones",
            recovery: "Leave the machine on and try again when ‘latchkey pin status’ says so\(until).",
            attemptsLeft: 0, lockedOutUntil: status.lockedOutUntil)
    }

    // MARK: The session

    /// Does something with the open locker, and locks it again.
    func opened<R>(for level: ProtectionLevel? = nil, _ body: (Locker) async throws -> R) async throws -> R {
        try await locker.open()
        let hadEasyAccess = locker.authSessionStatus.isEasyAccessEnabled
        do {
            let result = try await body(locker)
            await lock()
            return result
        } catch let error as ErsteGroupAuthError {
            let isGone = hadEasyAccess && !locker.authSessionStatus.isEasyAccessEnabled
            await lock()
            throw inWordsOfTheTool(error, level, isEasyAccessGone: isGone)
        } catch {
            await lock()
            throw error
        }
    }

    /// Starts what the level asks for, and does something in it.
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

    /// A locker of nobody has nothing to lock.
    private func lock() async {
        _ = try? await locker.endAuthSession(mode: .lock)
    }

    /// The same error, with what to do about it here.
    private func inWordsOfTheTool(
        _ error: ErsteGroupAuthError, _ level: ProtectionLevel?, isEasyAccessGone: Bool
    ) -> ErsteGroupAuthError {
        switch error.code {
        case .wrongSecret where isEasyAccessGone:
            error.told(
                because: "\(error.reason); that was the last attempt, and easy access is off now",
                "Log in with ‘latchkey locker start’, then set a PIN with ‘latchkey locker easy-access enable’, once ‘latchkey pin status’ says that PINs are"
                    + " taken.")
        case .network where level == .active:
            error.told(
                "Check the network and the server, then try again; only the levels ‘offline’ and ‘base’ do without.")
        case .network where level != .background && !allowsOffline:
            error.told(
                "Check the network and the server, then try again; with --allow-offline your PIN or finger alone opens "
                    + "data of the level ‘offline’.")
        default: error
        }
    }
}

extension ErsteGroupAuthError {
    fileprivate func told(because reason: String? = nil, _ recovery: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: code, reason: reason ?? self.reason, recovery: recovery,
            attemptsLeft: attemptsLeft, lockedOutUntil: lockedOutUntil, serverError: serverError,
            httpStatus: httpStatus, underlying: underlying)
    }
}
