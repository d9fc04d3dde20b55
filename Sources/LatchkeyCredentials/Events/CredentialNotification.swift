// Foundation, because that is where NotificationCenter is.
public import Foundation

/// The events as notifications, under the names that apps know. The object is the ``Credential``, or nil where there is
/// none; a failure has its error in `userInfo["error"]`. Each is posted once, on whatever thread it happened.
enum CredentialNotification {
    static func post(_ event: CredentialEvent) {
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
