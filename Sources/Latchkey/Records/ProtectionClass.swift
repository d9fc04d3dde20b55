/// Which records are opened together, and what opens them.
///
/// Each container has one random 32-byte key per class, sealed in the hardware under the class's policy. Opening a
/// class costs one hardware operation and whatever presence the policy asks for; after that its records are read and
/// written at the speed of memory, until ``RecordContainer/lock()``.
public struct ProtectionClass: Hashable, Sendable {
    /// 1 to 64 bytes of UTF-8; unique within a container.
    public let name: String
    /// What the hardware demands before it gives the class key.
    public let policy: AccessPolicy

    /// A class by its name, under a policy that stays what it is.
    public init(name: String, policy: AccessPolicy) {
        self.name = name
        self.policy = policy
    }

    /// Bound to this device. Its key also authenticates the metadata of every other class.
    ///
    /// Nobody need be present, unless the hardware can't seal anything without its owner: then the class is sealed under
    /// the PIN, or whatever is the least that this hardware always asks for, and opening it asks for that.
    public static let device = ProtectionClass(name: "device", policy: .none)

    /// For a record that is nothing but a ``HardwareKey``: the hardware authenticates its own blob, so the row needs
    /// no class key, and making or using the key needs no second hardware operation. Such a record has no payload,
    /// and its attributes decide nothing.
    public static let selfAuthenticated = ProtectionClass(name: "self-authenticated", policy: .none)
}

/// Classes with a PIN of their own. Their names say so: whoever may write the file can change that, and gets no more than
/// a change of the PIN that leaves a row out, as he gets by putting an old row back.
extension ProtectionClass {
    private static let ownPINMark = "own-pin."

    /// The class for what has a PIN that is not the container's: neither is it asked for where something else of the
    /// container wants the container's PIN, nor does ``RecordContainer/changePIN(for:authorizedBy:)`` change it.
    package var withOwnPIN: ProtectionClass { ProtectionClass(name: Self.ownPINMark + name, policy: policy) }

    /// Whether the class of that name has a PIN of its own.
    static func hasOwnPIN(_ name: String) -> Bool { name.hasPrefix(ownPINMark) }

    /// Whether the class of that name is one of those whose records need no class key.
    static func isSelfAuthenticated(_ name: String) -> Bool {
        name == selfAuthenticated.name || name == selfAuthenticated.withOwnPIN.name
    }
}
