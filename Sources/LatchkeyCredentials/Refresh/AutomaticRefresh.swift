internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// Refreshes a credential whenever it is due, as long as somebody holds the credential.
final class AutomaticRefresh: Sendable {
    private let task: Task<Void, Never>

    init(_ credential: Credential) {
        let clock = credential.store.configuration.clock
        let schedule = RefreshSchedule(grace: credential.store.configuration.graceInterval)
        task = Task { [weak credential] in
            var schedule = schedule
            while !Task.isCancelled {
                // The credential is held during a step only, so that waiting keeps nothing alive.
                guard let seconds = await credential?.stepOfAutomaticRefresh(&schedule, clock) else { return }
                do { try await clock.sleep(for: .seconds(seconds)) } catch { return }
            }
        }
    }

    func stop() { task.cancel() }
}

extension Credential {
    /// Whether the token is refreshed by itself before it ends, until the credential is removed or nobody holds it.
    ///
    /// Attempts that fail are repeated after 5 seconds, then after twice as long each time up to 5 minutes. It ends when
    /// the server wants the user to sign in again. A credential that asks for a person is not refreshed by itself:
    /// ``CredentialEvent/refreshFailed(_:_:)`` tells so.
    public var automaticRefresh: Bool {
        get { refresher.withLock { $0 != nil } }
        set {
            refresher.withLock { refresher in
                guard newValue != (refresher != nil) else { return }
                refresher?.stop()
                refresher = newValue ? AutomaticRefresh(self) : nil
            }
        }
    }

    /// Does what is due.
    ///
    /// - Returns: After how many seconds to look again; nil to stop.
    fileprivate func stepOfAutomaticRefresh(_ schedule: inout RefreshSchedule, _ clock: any CredentialClock)
        async -> TimeInterval?
    {
        do {
            guard try security == .none else {
                throw CredentialError.unsupported(
                    "refresh the credential by itself", "somebody has to be present for it",
                    recovery: "Refresh it when somebody is there.")
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
                    store.tell(.refreshFailed(self, error))
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
            return ![.signInAgain, .missingToken, .notFound, .unsupported, .invalidInput].contains(error.code)
        }
        return (error as? KeystoreError)?.code != .damaged
    }
}
