public import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// An access token of the session. When the session is locked or replaced it has no ``value`` any more, in whatever
/// copies there are.
public struct AccessToken: Sendable {
    /// When the server stops taking it.
    public let expiresAt: Date
    /// What it is good for.
    public let scopes: [String]
    /// When the user logged in for it; nil where that was not strong authentication.
    let loggedInAt: Date?
    let handle: Handle

    init(_ value: String, expiresAt: Date, scopes: [String], loggedInAt: Date? = nil) {
        self.loggedInAt = loggedInAt
        self.expiresAt = expiresAt
        self.scopes = scopes
        handle = Handle(SecretBytes(value.utf8))
    }

    /// What to send as a bearer token, to the app's own servers and nowhere else; nil once the session is over.
    public var value: String? { handle.secret?.text }

    /// Whether the server would refuse it by now.
    public func isExpired(at now: Date = Date()) -> Bool { now >= expiresAt }

    /// Whether it is of a login so recent that the server takes a new secret with it: 300 seconds may have passed when it
    /// hears of the secret, and most of them are for the person who sets it.
    func isOfFreshLogin(at now: Date) -> Bool {
        guard let loggedInAt, !isExpired(at: now) else { return false }
        return (0...60).contains(now.timeIntervalSince(loggedInAt))
    }

    /// What all copies share.
    final class Handle: Sendable {
        private let state: Mutex<SecretBytes?>

        init(_ secret: SecretBytes) { state = Mutex(secret) }

        var secret: SecretBytes? { state.withLock { $0 } }

        func close() { state.withLock { $0 = nil } }
    }
}

extension AccessToken: Hashable, CustomStringConvertible, CustomReflectable {
    /// The same token of the same session.
    public static func == (left: AccessToken, right: AccessToken) -> Bool { left.handle === right.handle }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(handle)) }

    public var description: String { "‹access token›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
