internal import Crypto
internal import FoundationEssentials

/// A group of records that open together, and the policy that opens them.
///
/// Each container has one random 32-byte key per class, sealed in the hardware under the class's
/// policy. Opening a class takes one hardware operation and the user verification that the policy
/// requires. After that its records are read and written in memory and on disk only, until
/// ``RecordContainer/lock()``.
public struct ProtectionClass: Hashable, Sendable {
    /// 1 to 64 bytes of UTF-8; unique within a container.
    public let name: String
    /// The policy under which the record key is sealed.
    public let policy: AccessPolicy

    /// Creates a class from its name and its policy, which cannot change later.
    public init(name: String, policy: AccessPolicy) {
        self.name = name
        self.policy = policy
    }

    /// The class that is only bound to this device. Its key also authenticates the metadata of
    /// every other class.
    ///
    /// It requires no user verification, unless the hardware cannot seal without it: then the class
    /// is sealed under the PIN, or the weakest policy that this hardware has, and opening the class
    /// prompts.
    public static let device = ProtectionClass(name: "device", policy: .none)

    /// The class of a record that consists only of a ``HardwareKey``. The hardware authenticates
    /// the key, so the row needs no record key, and creating or using it needs no second hardware
    /// operation. Such a record has no payload, and its attributes are not authenticated.
    package static let selfAuthenticated = ProtectionClass(
        name: "self-authenticated", policy: .none)
}

/// Classes with their own PIN, marked in their names. An attacker who can write the file can change
/// that mark. It only makes a PIN change skip the row, which the attacker can also achieve by
/// restoring an old row.
extension ProtectionClass {
    private static let ownPINMark = "own-pin."

    /// The same class with its own PIN instead of the container's. Prompts for the container's PIN
    /// do not accept it, and ``RecordContainer/changePIN(for:authorizedBy:)`` does not change it.
    package var withOwnPIN: ProtectionClass {
        ProtectionClass(name: Self.ownPINMark + name, policy: policy)
    }

    /// Whether the class of that name has its own PIN.
    package static func hasOwnPIN(_ name: String) -> Bool { name.hasPrefix(ownPINMark) }

    /// The class in an error. Apps do not name the class of the device.
    var words: String { name == Self.device.name ? "the records" : "the class ‘\(name)’" }

    /// Whether the records of the class of that name need no record key.
    static func isSelfAuthenticated(_ name: String) -> Bool {
        name == selfAuthenticated.name || name == selfAuthenticated.withOwnPIN.name
    }
}

/// The protection classes that one secret of a facade has in its life: a new one with a unique name
/// at each change of protection. At most one is stored at a time.
package struct ClassFamily: Hashable, Sendable {
    /// The prefix of the names of these classes, and of no others.
    package let prefix: String

    /// - Parameters:
    ///   - facade: The secret's kind in its facade, for example `vault`.
    ///   - name: The secret's name in it.
    package init(_ facade: String, of name: String) {
        prefix =
            "\(facade).\(Base64URL.encode(Data(SHA256.hash(data: Data(name.utf8)).prefix(12))))."
    }

    private init(prefix: String) { self.prefix = prefix }

    /// The family for a secret with its own PIN: see ``ProtectionClass/withOwnPIN``.
    package var withOwnPIN: ClassFamily {
        ClassFamily(prefix: ProtectionClass(name: prefix, policy: .pin).withOwnPIN.name)
    }

    /// Creates a class with a unique name.
    package func newClass(_ policy: AccessPolicy) -> ProtectionClass {
        let suffix = SecretBytes.random(count: 12).withUnsafeBytes { Base64URL.encode(Data($0)) }
        return ProtectionClass(name: prefix + suffix, policy: policy)
    }

    /// Whether the class is one of these.
    package func contains(_ protection: ProtectionClass) -> Bool {
        protection.name.hasPrefix(prefix)
    }
}

/// A change of a container's protection classes, in the transaction that changes the records.
package enum ClassChange: Sendable {
    /// Stores a new class.
    case add(PreparedClass)
    /// Locks all classes whose names have this prefix, and destroys their keys, so the records
    /// encrypted under them cannot be read again. ``RecordContainer/finishRevocations()`` revokes
    /// those that are revocable: then no copy of the store opens them.
    case drop(prefix: String)
    /// Changes nothing, and refuses the transaction if there is a class whose name has this prefix.
    case expectNone(prefix: String)
}

/// A new protection class that is not stored yet: the hardware has sealed and opened it once. It is
/// stored in one transaction with the records that it protects.
package struct PreparedClass: Sendable {
    package let protection: ProtectionClass
    let sealed: SealedSecret
    package let session: ClassSession
    /// The reserved revocation of a revocable class.
    let reservation: RevocationReservation?
}
