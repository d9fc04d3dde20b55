/// A key in a slot, with the conditions of its use.
struct SlotKey {
    /// Where the key came from, with its number in the metadata.
    enum Origin: UInt8 {
        case generated = 1
        case imported = 2
    }

    let key: EllipticCurveKey
    let pinPolicy: PINPolicy
    let touchPolicy: TouchPolicy
    let origin: Origin
}
