/// Takes the TPM's wire form apart. What it reads is hostile: every length is checked before it is used.
///
/// Each method throws ``TPMError`` of kind `malformed` when the bytes end too early or a size is above its maximum.
public struct TPMReader {
    private var bytes: [UInt8]
    private var position = 0

    /// Reads from the first of these bytes on.
    public init(_ bytes: some Collection<UInt8>) {
        self.bytes = Array(bytes)
    }

    /// How many bytes have not been read.
    public var remaining: Int { bytes.count - position }

    /// An integer, most significant byte first.
    public mutating func read<I: FixedWidthInteger>(_ type: I.Type = I.self) throws(TPMError) -> I {
        try take(I.bitWidth / 8).reduce(into: I.zero) { $0 = $0 << 8 | I(truncatingIfNeeded: $1) }
    }

    /// Exactly `count` bytes.
    public mutating func readBytes(_ count: Int) throws(TPMError) -> [UInt8] {
        Array(try take(count))
    }

    /// All bytes that are left.
    public mutating func readRest() -> [UInt8] {
        defer { position = bytes.count }
        return Array(bytes[position...])
    }

    /// A `TPM2B` of at most `maximum` bytes.
    public mutating func readSized(maximum: Int) throws(TPMError) -> [UInt8] {
        let count = Int(try read(UInt16.self))
        guard count <= maximum else { throw .malformed("a field has \(count) bytes and may have \(maximum)") }
        return Array(try take(count))
    }

    /// A structure inside of a `TPM2B` of at most `maximum` bytes, which must fill it.
    public mutating func readSized<T: TPMUnmarshallable>(_ type: T.Type, maximum: Int) throws(TPMError) -> T {
        var inner = TPMReader(try readSized(maximum: maximum))
        let value = try T(from: &inner)
        try inner.finish()
        return value
    }

    /// A structure.
    public mutating func read<T: TPMUnmarshallable>(_ type: T.Type = T.self) throws(TPMError) -> T {
        try T(from: &self)
    }

    /// A list with a 32-bit count of at most `maximum` in front.
    public mutating func readList<T>(
        maximum: Int, _ element: (inout TPMReader) throws(TPMError) -> T
    ) throws(TPMError) -> [T] {
        let count = try read(UInt32.self)
        guard count <= maximum else { throw .malformed("a list has \(count) elements and may have \(maximum)") }
        var list: [T] = []
        for _ in 0..<count { list.append(try element(&self)) }
        return list
    }

    /// Requires that nothing is left.
    public func finish() throws(TPMError) {
        guard remaining == 0 else { throw .malformed("\(remaining) bytes are left over") }
    }

    /// Clears all bytes, for a reader that held a secret. Nothing is left to be read.
    mutating func wipe() {
        bytes.withUnsafeMutableBytes { wipeMemory($0) }
        position = bytes.count
    }

    private mutating func take(_ count: Int) throws(TPMError) -> ArraySlice<UInt8> {
        guard count <= remaining else { throw .malformed("it ends \(count - remaining) bytes too early") }
        defer { position += count }
        return bytes[position..<(position + count)]
    }
}
