import FoundationEssentials
import Latchkey
import LatchkeyLocker

/// The container's locker, for one command.
struct LockerSession {
    let locker: Locker

    init(in context: CommandContext, _ options: LockerOptions) async throws {
        try await self.init(
            in: context, policy: options.policy.policy, levelShares: options.withoutShares ? .whenOffered : .required,
            offlineVerification: options.allowOffline ? OfflineVerification() : nil)
    }

    /// Nothing is opened yet.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` when no server is named.
    init(
        in context: CommandContext, policy: AccessPolicy = .pin, levelShares: LevelSharePolicy = .required,
        offlineVerification: OfflineVerification? = nil
    ) async throws {
        guard let endpoint = context.settings.endpoint, let clientID = context.settings.clientID else {
            throw KeystoreError(
                operation: "find the identity server", code: .invalidInput,
                reason: "no endpoint and client id are configured",
                recovery: "Give --endpoint and --client-id, or put both into the configuration file.")
        }
        locker = try Locker(
            LockerConfiguration(
                issuer: endpoint, clientID: clientID, records: try await context.records(),
                presence: context.presence, channel: BrowserChannel(context.browser),
                transport: LoggingTransport(log: context.log), easyAccessPolicy: policy, levelShares: levelShares,
                offlineVerification: offlineVerification,
                logger: LockerLog(context.log)))
    }

    /// Does something with the open locker, and locks it again.
    func opened<R>(_ body: (Locker) async throws -> R) async throws -> R {
        try await locker.open()
        do {
            let result = try await body(locker)
            await lock()
            return result
        } catch {
            await lock()
            throw error
        }
    }

    /// Starts what the level asks for, and does something in it.
    func opened<R>(for level: ProtectionLevel, _ body: (Locker) throws -> R) async throws -> R {
        try await opened { locker in
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
}
