internal import Dispatch
// Foundation, because that is where NotificationCenter is.
public import Foundation

/// The events as notifications, under the names that apps know. The object is the ``Credential``, or nil where there is
/// none; a failure has its error in `userInfo["error"]`. Each is posted once, in the order in which they happened.
///
/// Who posts waits until observers with a queue have run on it. So the main actor must never post: where Foundation does
/// not take its thread for the main one, as on Linux after a program's first `await`, it would wait for an observer on
/// the main queue, which waits for it. A thread of our own can wait.
enum CredentialNotification {
    private static let queue = DispatchQueue(label: "latchkey.credentials.notifications")

    static func post(_ event: CredentialEvent) {
        queue.async { deliver(event) }
    }

    private static func deliver(_ event: CredentialEvent) {
        switch event {
        case .defaultChanged(let credential): post(.defaultCredentialChanged, credential)
        case .created(let credential): post(.credentialCreated, credential)
        case .tagsChanged(let credential): post(.credentialTagsChanged, credential)
        case .removed(let credential): post(.credentialRemoved, credential)
        case .refreshed(let credential):
            post(.credentialRefreshed, credential)
        case .refreshFailed(let credential, let error): post(.credentialRefreshFailed, credential, error)
        case .unreadable(let error), .failed(let error): post(.credentialStorageFailed, nil, error)
        }
    }

    private static func post(_ name: Notification.Name, _ credential: Credential?, _ error: (any Error)? = nil) {
        NotificationCenter.default.post(name: name, object: credential, userInfo: error.map { ["error": $0] })
    }
}

extension Notification.Name {
    /// Another credential is the default; without an object, none is.
    public static let defaultCredentialChanged = Notification.Name("LatchkeyDefaultCredentialChanged")
    /// A token was stored.
    public static let credentialCreated = Notification.Name("LatchkeyCredentialCreated")
    /// A credential's tags were changed.
    public static let credentialTagsChanged = Notification.Name("LatchkeyCredentialTagsChanged")
    /// A credential was removed.
    public static let credentialRemoved = Notification.Name("LatchkeyCredentialRemoved")
    /// A credential's token was refreshed.
    public static let credentialRefreshed = Notification.Name("LatchkeyCredentialRefreshed")
    /// A credential's token could not be refreshed.
    public static let credentialRefreshFailed = Notification.Name("LatchkeyCredentialRefreshFailed")
    /// Something in the store could not be read or written where no error could be thrown.
    public static let credentialStorageFailed = Notification.Name("LatchkeyCredentialStorageFailed")
}
