public import Foundation
internal import Latchkey

/// The names under which iOS apps observe credentials. The same things, with more of them, come from
/// ``CredentialStore/events``.
extension Notification.Name {
    /// The default credential changed. The object is the ``Credential``, or nil when there is none.
    public static let defaultCredentialChanged = Notification.Name("org.latchkey.credential.default")
    /// A credential was stored. The object is the ``Credential``.
    public static let credentialCreated = Notification.Name("org.latchkey.credential.created")
    /// A credential was removed. The object is the ``Credential``.
    public static let credentialRemoved = Notification.Name("org.latchkey.credential.removed")
    /// A credential could not be refreshed. The object is the ``Credential``; `userInfo` has the error under `error`.
    public static let credentialRefreshFailed = Notification.Name("org.latchkey.credential.refresh.failed")
    /// A token was refreshed. The object is the ``Credential``.
    public static let tokenRefreshed = Notification.Name("org.latchkey.token.refreshed")
    /// A token could not be refreshed. The object is the ``Credential``; `userInfo` has the error under `error`.
    public static let tokenRefreshFailed = Notification.Name("org.latchkey.token.refresh.failed")
}

extension CredentialStore {
    /// Tells everybody of something that has happened.
    func tell(_ event: CredentialEvent) {
        broadcast.tell(event)
        switch event {
        case .created(let credential): post(.credentialCreated, credential)
        case .removed(let credential): post(.credentialRemoved, credential)
        case .defaultChanged(let credential): post(.defaultCredentialChanged, credential)
        case .refreshed(let credential): post(.tokenRefreshed, credential)
        case .refreshFailed(let credential, let error):
            post(.tokenRefreshFailed, credential, ["error": error])
            post(.credentialRefreshFailed, credential, ["error": error])
        case .tagsChanged, .failed, .unreadable: break
        }
    }

    private func post(_ name: Notification.Name, _ credential: Credential?, _ info: [AnyHashable: Any]? = nil) {
        NotificationCenter.default.post(name: name, object: credential, userInfo: info)
    }
}
