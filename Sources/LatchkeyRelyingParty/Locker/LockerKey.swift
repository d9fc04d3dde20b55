public import Latchkey

/// A key of an enrolled device, by the name under which it signs.
public struct LockerKey: Hashable, Sendable {
    /// The name of the key, unique within its enrolment.
    public let kid: KeyID
    public let publicKey: PublicKey

    public init(kid: KeyID, publicKey: PublicKey) {
        self.kid = kid
        self.publicKey = publicKey
    }
}
