public import Latchkey

/// A key of an enrolled device, by the name under which it signs.
public struct LockerKey: Hashable, Sendable {
    /// The name of the key, unique within its enrolment.
    public let kid: KeyID
    /// Its public half.
    public let publicKey: PublicKey

    /// A key under its name.
    public init(kid: KeyID, publicKey: PublicKey) {
        self.kid = kid
        self.publicKey = publicKey
    }
}
