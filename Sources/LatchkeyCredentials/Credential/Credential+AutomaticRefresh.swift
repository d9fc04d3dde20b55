public import Latchkey
internal import Synchronization

extension Credential {
    /// Whether the token is refreshed by itself. It stops being when trying again can't help: the server has taken the
    /// token back, or the credential was removed.
    public var isRefreshingAutomatically: Bool { work.withLock { $0.automatic != nil } }

    /// Has the token refreshed before it ends, as long as this object lives and until ``stopAutomaticRefresh()``.
    /// Failures come as ``CredentialEvent/refreshFailed(_:_:)``, and are tried again after 5 to 300 seconds.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a token that somebody must be present for: nobody can be asked in the
    ///   background.
    public func startAutomaticRefresh() throws(KeystoreError) {
        guard try metadata.security.requirement == .none else {
            throw .unsupported(
                "refresh the token automatically", "somebody must be present to open it",
                recovery: "Store it without a policy, or refresh it while somebody is there.")
        }
        work.withLock { work in
            guard work.automatic == nil else { return }
            let (grace, sleep) = (store.configuration.refreshGraceInterval, store.configuration.sleep)
            work.automatic = Task { [weak self] in
                var schedule = RefreshSchedule(grace: grace)
                while let delay = await self?.advance(&schedule) {
                    do { try await sleep(.seconds(delay)) } catch { return }
                }
                self?.automaticRefreshEnded()
            }
        }
    }

    /// Lets the token end.
    public func stopAutomaticRefresh() {
        work.withLock { work in
            work.automatic?.cancel()
            work.automatic = nil
        }
    }

    private func automaticRefreshEnded() {
        guard !Task.isCancelled else { return }
        work.withLock { $0.automatic = nil }
    }

    /// Does what is due.
    ///
    /// - Returns: How many seconds to wait for the next look; nil to stop.
    private func advance(_ schedule: inout RefreshSchedule) async -> Double? {
        guard !Task.isCancelled else { return nil }
        do {
            switch schedule.step(for: try await unlock(), now: store.configuration.now()) {
            case .stop: return nil
            case .sleep(let seconds): return seconds
            case .refresh:
                try await refresh()
                return schedule.succeeded()
            }
        } catch {
            return schedule.failed(error)
        }
    }
}
