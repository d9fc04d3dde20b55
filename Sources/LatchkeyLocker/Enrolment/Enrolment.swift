internal import FoundationEssentials
internal import Latchkey

/// One device's enrolment for one user: what is stored, with its secrets open.
struct Enrolment: Sendable {
    /// The server's name for it.
    let id: String
    let issuer: String
    let clientID: String
    /// The user's id at the server.
    let userID: String
    /// Whether the server keeps shares of the level keys.
    let isShared: Bool
    /// Signs for the device, whoever is there.
    let deviceKey: HardwareKey
    var easyAccess: EasyAccess?
    let wraps: LevelWraps
    /// The class that holds the two secrets below, of ``baseClasses(of:)``.
    let baseClass: ProtectionClass
    /// The key of the level `base`, and the device's part of `background` and `active`: 32 bytes each.
    let baseKey: LevelKey
    let deviceSecret: SecretBytes
    /// The generation of the row; 0 before it is stored.
    var generation = 0

    /// The way in by a secret.
    struct EasyAccess: Sendable {
        let key: HardwareKey
        /// The class that holds the key of the level `offline`, under the same policy as the key, of
        /// ``offlineClasses(of:)``.
        let offlineClass: ProtectionClass
    }

    // The names of classes are random, so that nobody can prepare one, of which they know the key, before it is made.

    /// Where the key of the level `base` is; needs nobody.
    static func baseClasses(of id: String) -> ClassFamily { ClassFamily("locker.base", of: id) }

    /// Where the key of the level `offline` is: another class for each secret. The secret is the locker's own, whatever
    /// else the container has.
    static func offlineClasses(of id: String) -> ClassFamily { ClassFamily("locker.offline", of: id).withOwnPIN }

    /// All that there are.
    static func classes(of id: String) -> [ClassFamily] { [baseClasses(of: id), offlineClasses(of: id)] }
}
