/// A connection that was left open for one use, by its number; ``TPMDevice`` has it.
struct HeldUse: Hashable, Sendable {
    let id: UInt64
    let nonceTPM: [UInt8]
}
