internal import Dispatch
// Foundation declares NotificationCenter.
public import Foundation

/// A change of the credentials by this process, after it was stored.
public enum CredentialEvent: Sendable {
    /// The default changed; nil if it was cleared.
    case defaultChanged(Credential?)
    /// A token was stored.
    case created(Credential)
    /// The tags were changed.
    case tagsChanged(Credential)
    /// The credential was removed from the store.
    case removed(Credential)
    /// The token was refreshed, or replaced by one of a new login.
    case refreshed(Credential)
    /// The token could not be refreshed.
    case refreshFailed(Credential, any Error)
    /// Claims of the stored token were not copied into its metadata, because they have more than 64
    /// KiB of JSON or more than 1,000 elements. `find(where:)` does not find them;
    /// ``Credential/token`` has them.
    case claimsNotCopied(Credential, names: [String])
    /// A row can't be read, and was left out of a result.
    case unreadable(any Error)
    /// An access to a property that can't throw (``Credential/default``, ``Credential/tags``)
    /// failed.
    case failed(any Error)
}

/// Posts the events to NotificationCenter. The object is the ``Credential``, or nil; a failure has
/// its error in `userInfo["error"]`. Each event except
/// ``CredentialEvent/claimsNotCopied(_:names:)`` is posted once, in order.
///
/// Posting blocks until observers with a queue have run on it. The main actor must therefore never
/// post: on Linux, after a program's first `await`, Foundation does not treat its thread as the
/// main thread, and posting would wait for an observer on the main queue that waits for the poster.
/// A separate queue can wait.
enum CredentialNotification {
    private static let queue = DispatchQueue(label: "latchkey.credentials.notifications")

    static func post(_ event: CredentialEvent) {
        let (name, credential, error): (Notification.Name?, Credential?, (any Error)?) =
            switch event {
            case .defaultChanged(let credential): (.defaultCredentialChanged, credential, nil)
            case .created(let credential): (.credentialCreated, credential, nil)
            case .tagsChanged(let credential): (.credentialTagsChanged, credential, nil)
            case .removed(let credential): (.credentialRemoved, credential, nil)
            case .refreshed(let credential): (.tokenRefreshed, credential, nil)
            case .refreshFailed(let credential, let error):
                (.tokenRefreshFailed, credential, error)
            case .unreadable(let error), .failed(let error): (.credentialStorageFailed, nil, error)
            case .claimsNotCopied: (nil, nil, nil)
            }
        guard let name else { return }
        queue.async {
            NotificationCenter.default.post(
                name: name, object: credential, userInfo: error.map { ["error": $0] })
        }
    }
}

extension Notification.Name {
    /// The default changed; without an object, it was cleared.
    public static let defaultCredentialChanged = Notification.Name(
        "LatchkeyDefaultCredentialChanged")
    /// A token was stored.
    public static let credentialCreated = Notification.Name("LatchkeyCredentialCreated")
    /// A credential's tags were changed.
    public static let credentialTagsChanged = Notification.Name("LatchkeyCredentialTagsChanged")
    /// A credential was removed.
    public static let credentialRemoved = Notification.Name("LatchkeyCredentialRemoved")
    /// A credential's token was refreshed.
    public static let tokenRefreshed = Notification.Name("LatchkeyTokenRefreshed")
    /// A credential's token could not be refreshed.
    public static let tokenRefreshFailed = Notification.Name("LatchkeyTokenRefreshFailed")
    /// The store could not be read or written by an API that can't throw.
    public static let credentialStorageFailed = Notification.Name("LatchkeyCredentialStorageFailed")
}
