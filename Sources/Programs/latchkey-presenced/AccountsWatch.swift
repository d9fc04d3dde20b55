import Glibc
import Latchkey
import LatchkeyPlatform

/// The file of the machine's accounts. The unit of the service gives it this file alone, so after a
/// program replaced the file, this process would see the old accounts until its end: for example the
/// name of a deleted one, whose number another one has.
enum AccountsWatch {
    static let path = "/etc/passwd"

    /// Watches the file that this process sees.
    ///
    /// - Parameter replaced: Called once, after the file lost its name, also before this call: the unit
    ///   gets the file before the program starts. Then it is called on this thread, otherwise on
    ///   another one. Another change of the file's links or attributes has the same effect.
    /// - Throws: ``KeystoreError`` with code `unavailable` without descriptors or threads.
    static func watch(
        _ path: String = path, replaced: @escaping @Sendable () -> Void
    ) throws(KeystoreError) {
        let descriptor = inotify_init1(Int32(IN_CLOEXEC))
        guard descriptor >= 0 else { throw unwatched(.last) }
        let events = UInt32(IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
        guard inotify_add_watch(descriptor, path, events) >= 0 else {
            let error = SystemError.last
            close(descriptor)
            // A machine without the file has no such accounts.
            guard error.number == ENOENT else { throw unwatched(error) }
            return
        }
        // No event tells of a name that was lost before.
        var status = stat()
        guard stat(path, &status) == 0, status.st_nlink > 0 else {
            close(descriptor)
            return replaced()
        }
        let isStarted = BlockingThread.start {
            var event = [UInt8](repeating: 0, count: 4096)
            while read(descriptor, &event, event.count) < 0, errno == EINTR {}
            close(descriptor)
            replaced()
        }
        guard isStarted else {
            close(descriptor)
            throw unwatched(SystemError(EAGAIN))
        }
    }

    /// Waits until the service has no open request. The requests that begin meanwhile are served, so
    /// that no user can stop the service for others, but see the old accounts: so the wait has a
    /// limit. The interval also limits how often a user who changes the file restarts the service.
    ///
    /// - Returns: false if the task was cancelled.
    static func isServed(
        within limit: Duration = .seconds(30), every interval: Duration = .milliseconds(200),
        _ isIdle: () async -> Bool
    ) async -> Bool {
        let end = ContinuousClock.now + limit
        repeat {
            guard (try? await Task.sleep(for: interval)) != nil else { return false }
        } while await !isIdle() && ContinuousClock.now < end
        return true
    }

    private static func unwatched(_ error: SystemError) -> KeystoreError {
        KeystoreError(
            operation: "watch the accounts of this machine", code: .unavailable,
            reason: "\(path) cannot be watched: \(error)",
            recovery: "Close other programs, then start it again.")
    }
}
