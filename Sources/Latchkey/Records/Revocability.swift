/// Whether the hardware shall be able to revoke a new key: a copy of the store then opens nothing after a deletion, and the
/// old PIN opens nothing after a PIN change.
public enum Revocability: Hashable, Sendable {
    /// Fails with `unsupported` where the hardware refuses.
    case required
    /// Makes it without revocation where the hardware refuses, and the result says so.
    ///
    /// An attacker on the bus can forge the refusal. Use ``required`` where a copy of the store must not work.
    case preferred
    /// Makes it without revocation.
    case never
}
