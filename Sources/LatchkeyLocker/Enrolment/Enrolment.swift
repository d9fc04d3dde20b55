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
    /// What the names of its protection classes begin with, and no other's.
    let classPrefix: String
    /// The key of the level `base`, and the device's part of `background` and `active`: 32 bytes each.
    let baseKey: LevelKey
    let deviceSecret: SecretBytes

    /// The way in by a secret.
    struct EasyAccess: Sendable {
        let key: HardwareKey
        /// The class that holds the key of the level `offline`, under the same policy as the key.
        let offlineClass: ProtectionClass
    }

    var baseClass: ProtectionClass { Self.baseClass(classPrefix) }

    static func baseClass(_ prefix: String) -> ProtectionClass {
        ProtectionClass(name: prefix + "base", policy: .none)
    }

    /// A class for the level `offline` that was never there before.
    static func newOfflineClass(_ prefix: String, _ policy: AccessPolicy) -> ProtectionClass {
        ProtectionClass(name: "\(prefix)offline.\(randomName())", policy: policy)
    }

    static func newClassPrefix() -> String { "locker.\(randomName())." }

    private static func randomName() -> String {
        SecretBytes.random(count: 12).withUnsafeBytes { Base64URL.encode(Data($0)) }
    }
}
