internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

extension Credential {
    /// Whether the token is refreshed automatically before its expiry, while the credential is
    /// stored and this object exists. In the app's shared store (``storage``), setting it to true
    /// keeps the object until the credential is removed.
    ///
    /// Failed attempts are repeated after 5 seconds, then after twice the time, up to 5 minutes. It
    /// ends with `signInAgain`. A credential with a policy is not refreshed automatically, and
    /// ``CredentialEvent/refreshFailed(_:_:)`` reports that.
    public var automaticRefresh: Bool {
        get { refresher.withLock { $0 != nil } }
        set {
            refresher.withLock { refresher in
                guard newValue != (refresher != nil) else { return }
                refresher?.cancel()
                refresher = newValue ? startAutomaticRefresh() : nil
            }
            if newValue { keep() }
        }
    }

    /// Refreshes the credential whenever it is due, while the object exists.
    private func startAutomaticRefresh() -> Task<Void, Never> {
        let configuration = store.configuration
        return Task { [weak self] in
            var schedule = RefreshSchedule(grace: configuration.graceInterval)
            while !Task.isCancelled {
                // The reference is strong during a step only, so that waiting does not keep the
                // credential alive.
                guard
                    let seconds = await self?.stepOfAutomaticRefresh(&schedule, configuration.clock)
                else { return }
                do { try await configuration.clock.sleep(for: .seconds(seconds)) } catch { return }
            }
        }
    }

    /// Refreshes the credential if it is due.
    ///
    /// - Returns: The seconds until the next step; nil to stop.
    fileprivate func stepOfAutomaticRefresh(
        _ schedule: inout RefreshSchedule, _ clock: any CredentialClock
    )
        async -> TimeInterval?
    {
        do {
            guard try security == .none else {
                throw CredentialError.unsupported(
                    "the credential requires a PIN or fingerprint",
                    recovery: "Refresh it when the user can answer the prompt."
                ).during("refresh the credential automatically")
            }
            switch schedule.next(try metadata, at: clock.now) {
            case .wait(let seconds): return seconds
            case .stop: return ended()
            case .refresh: try await refresh()
            }
            schedule.succeeded(at: clock.now)
        } catch {
            guard Self.isWorthRepeating(error) else {
                if (error as? CredentialError)?.code == .unsupported {
                    store.publish(.refreshFailed(self, error))
                }
                return ended()
            }
            schedule.failed(at: clock.now)
        }
        return RefreshSchedule.shortestPause
    }

    private func ended() -> TimeInterval? {
        refresher.withLock { $0 = nil }
        return nil
    }

    private static func isWorthRepeating(_ error: any Error) -> Bool {
        if let error = error as? CredentialError {
            return ![.signInAgain, .missingToken, .notFound, .unsupported, .invalidInput].contains(
                error.code)
        }
        return (error as? KeystoreError)?.code != .damaged
    }
}

/// The schedule of an automatic refresh, as a pure function. With any server and clock, its pauses
/// stay within fixed bounds.
struct RefreshSchedule: Sendable {
    /// What to do next.
    enum Action: Hashable, Sendable {
        case refresh
        /// Wait this many seconds, then call ``next(_:at:)`` again.
        case wait(TimeInterval)
        /// The token cannot be refreshed or does not expire.
        case stop
    }

    /// The minimum seconds between two attempts, even if they succeed.
    static let shortestPause: TimeInterval = 5
    /// The maximum seconds between two failed attempts.
    static let longestPause: TimeInterval = 300
    /// The maximum seconds of one wait. The clock and the store are read again afterwards, because
    /// both may change.
    static let longestWait: TimeInterval = 600

    let grace: TimeInterval
    private var failures = 0
    private var nextAttempt = Date.distantPast

    init(grace: TimeInterval) {
        self.grace = grace
    }

    func next(_ metadata: Token.Metadata, at now: Date) -> Action {
        guard metadata.isRefreshable, let due = Self.dueDate(of: metadata, grace: grace, at: now)
        else { return .stop }
        // A clock that was set back must not extend the pause.
        let time = max(due, min(nextAttempt, now.addingTimeInterval(Self.longestPause)))
        guard time > now else { return .refresh }
        return .wait(min(max(time.timeIntervalSince(now), 1), Self.longestWait))
    }

    mutating func succeeded(at now: Date) {
        failures = 0
        nextAttempt = now.addingTimeInterval(Self.shortestPause)
    }

    mutating func failed(at now: Date) {
        // After 10 doublings the maximum applies anyway.
        let pause = Self.shortestPause * Double(1 << min(failures, 10))
        failures += 1
        nextAttempt = now.addingTimeInterval(min(pause, Self.longestPause))
    }

    /// When a token is due for a refresh; nil without an expiry. A token that was issued in the
    /// future is due at once: the clock was set back, so its expiry is unknown.
    static func dueDate(of metadata: Token.Metadata, grace: TimeInterval, at now: Date) -> Date? {
        guard let end = metadata.expiresAt else { return nil }
        guard metadata.issuedAt <= now.addingTimeInterval(IDTokenValidator.leeway) else {
            return now
        }
        let life = max(0, end.timeIntervalSince(metadata.issuedAt))
        return end.addingTimeInterval(-min(max(0, grace), life / 2))
    }
}
