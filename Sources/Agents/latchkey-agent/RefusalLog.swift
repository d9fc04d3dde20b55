import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeySSH
import LatchkeyServices
import Logging
import Synchronization

/// Logs the reasons of refused requests and closed connections, and shows the user why nothing was
/// signed: a client says only that the agent refused. What forwarded connections cause is limited,
/// because a server can cause any number of refusals.
final class RefusalLog: Sendable {
    private static let title = "Latchkey has signed nothing"

    private let log: Logger
    private let notification: DesktopNotification?
    private let logged = Mutex(RateLimit<Bool>(60, in: .seconds(60)))
    private let warned = Mutex(RateLimit<String>(1, in: .seconds(60)))
    private let shown = Mutex(RateLimit<Bool>(1, in: .seconds(60)))

    /// - Parameter notification: nil to show nothing.
    init(_ log: Logger, notification: DesktopNotification?) {
        (self.log, self.notification) = (log, notification)
    }

    func notice(_ reason: String, _ session: ClientSession) {
        write(reason, session, level: .notice)
    }

    /// The store, a file or the other agent fails. Each request of any client can cause the line, so
    /// it is written once a minute.
    func warning(_ text: String) {
        if warned.withLock({ $0.admit(text, at: .now) }) { log.warning("\(text)") }
    }

    /// A request for a signature was refused before the hardware was used.
    ///
    /// - Parameter isShown: Whether to notify the user; false if the request was cancelled.
    func refused(
        _ reason: String, _ session: ClientSession, _ key: SSHKeyRecord, isShown: Bool = true
    ) {
        write("refused to sign: \(reason)", session, key, level: .notice)
        if isShown { show("\(reason).", session, key) }
    }

    /// The hardware, or the prompt for it, refused a signature.
    func failed(
        _ error: KeystoreError, _ session: ClientSession, _ key: SSHKeyRecord, isShown: Bool
    ) {
        let operation = error.during("sign for \(session.client.description)")
        write("\(operation) \(error.advice)", session, key, level: .warning)
        guard isShown, error.reason != PINAnswer.userDeclined else { return }
        show("\(error.reason). \(error.advice)", session, key)
    }

    private func write(
        _ text: String, _ session: ClientSession, _ key: SSHKeyRecord? = nil, level: Logger.Level
    ) {
        guard !session.origin.isForwarded || logged.withLock({ $0.admit(true, at: .now) })
        else { return }
        var metadata: Logger.Metadata = ["client": "\(session.client.description)"]
        if let key { metadata["key"] = "\(key.key.id)" }
        log.log(level: level, "\(text)", metadata: metadata)
    }

    private func show(_ text: String, _ session: ClientSession, _ key: SSHKeyRecord) {
        guard let notification,
            !session.origin.isForwarded || shown.withLock({ $0.admit(true, at: .now) })
        else { return }
        let subject =
            "The SSH key \(String(quoted: key.name, limit: 40)) for \(session.client.description)"
        Task { await notification.show(Self.title, "\(subject): \(text)") }
    }
}
