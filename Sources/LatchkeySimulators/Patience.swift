/// Waits for what nothing tells of but trying.
enum Patience {
    /// Asks again every few milliseconds until `isReady` says yes.
    ///
    /// - Returns: false when it did not within `limit`, or the task was cancelled.
    static func until(_ limit: Duration, _ isReady: () async -> Bool) async -> Bool {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline {
            if await isReady() { return true }
            guard (try? await Task.sleep(for: .milliseconds(3))) != nil else { return false }
        }
        return false
    }
}
