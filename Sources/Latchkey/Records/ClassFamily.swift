internal import Crypto
internal import FoundationEssentials

/// The protection classes that one secret of a facade has in the course of its life: a new one, under a name that was
/// never there before, each time its protection changes. At most one is stored at a time.
package struct ClassFamily: Hashable, Sendable {
    /// What the names of these classes begin with, and no other's.
    package let prefix: String

    /// - Parameters:
    ///   - facade: What the secret is to its facade, for example `vault`.
    ///   - name: The secret's name in it.
    package init(_ facade: String, of name: String) {
        prefix = "\(facade).\(Base64URL.encode(Data(SHA256.hash(data: Data(name.utf8)).prefix(12))))."
    }

    private init(prefix: String) { self.prefix = prefix }

    /// The same for a secret that has a PIN of its own: see ``ProtectionClass/withOwnPIN``.
    package var withOwnPIN: ClassFamily {
        ClassFamily(prefix: ProtectionClass(name: prefix, policy: .pin).withOwnPIN.name)
    }

    /// A class that was never there before.
    package func newClass(_ policy: AccessPolicy) -> ProtectionClass {
        let suffix = SecretBytes.random(count: 12).withUnsafeBytes { Base64URL.encode(Data($0)) }
        return ProtectionClass(name: prefix + suffix, policy: policy)
    }

    /// Whether the class is one of these.
    package func contains(_ protection: ProtectionClass) -> Bool { protection.name.hasPrefix(prefix) }
}
