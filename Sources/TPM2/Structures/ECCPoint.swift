/// A point on a curve, `TPMS_ECC_POINT` (TPM 2.0 Part 2 section 11.2.5.2).
public struct ECCPoint: Hashable, Sendable {
    /// The most bytes that a coordinate has (P-638).
    static let maximumCoordinate = 80

    /// Big-endian. Some TPMs leave leading zeros out.
    public let x: [UInt8]
    /// Big-endian. Some TPMs leave leading zeros out.
    public let y: [UInt8]

    /// A point; an empty one in a template.
    public init(x: [UInt8], y: [UInt8]) {
        self.x = x
        self.y = y
    }

    /// A point of no length, or of zeros only: what a template holds where the key will be.
    public var isUnset: Bool { x.allSatisfy { $0 == 0 } && y.allSatisfy { $0 == 0 } }

    /// `04 ‖ x ‖ y` with coordinates of 32 bytes (SEC 1 section 2.3.3), or nil when a coordinate has more.
    public var p256Representation: [UInt8]? {
        guard let x = x.leftPadded(to: 32), let y = y.leftPadded(to: 32) else { return nil }
        return [4] + x + y
    }
}

extension ECCPoint: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        x = try reader.readSized(maximum: Self.maximumCoordinate)
        y = try reader.readSized(maximum: Self.maximumCoordinate)
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.writeSized(x)
        writer.writeSized(y)
    }
}

extension [UInt8] {
    /// The same big-endian number in exactly `count` bytes, or nil when it does not fit.
    func leftPadded(to count: Int) -> [UInt8]? {
        let significant = drop { $0 == 0 }
        guard significant.count <= count else { return nil }
        return [UInt8](repeating: 0, count: count - significant.count) + significant
    }
}
