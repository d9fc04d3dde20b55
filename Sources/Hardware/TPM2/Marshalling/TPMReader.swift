/// A structure that can be read from the TPM's wire format.
package protocol TPMUnmarshallable {
    /// - Throws: ``TPMError`` of kind `malformed`.
    init(from reader: inout TPMReader) throws(TPMError)
}

extension TPMUnmarshallable {
    /// Reads a structure from bytes that contain only that structure.
    ///
    /// - Throws: ``TPMError`` of kind `malformed`.
    package init(unmarshalling bytes: some Collection<UInt8>) throws(TPMError) {
        var reader = TPMReader(bytes)
        self = try Self(from: &reader)
        try reader.finish()
    }
}

/// Reads the TPM's wire format. The input is untrusted: each length is checked before use.
///
/// Each method throws ``TPMError`` of kind `malformed` when the bytes end too early or a size
/// exceeds its maximum.
package struct TPMReader {
    private var bytes: [UInt8]
    private var position = 0

    /// Creates a reader at the first of the bytes.
    package init(_ bytes: some Collection<UInt8>) {
        self.bytes = Array(bytes)
    }

    /// The number of unread bytes.
    package var remaining: Int { bytes.count - position }

    /// Reads exactly `count` bytes.
    package mutating func readBytes(_ count: Int) throws(TPMError) -> [UInt8] {
        guard count <= remaining else {
            throw .malformed("it ends \(count - remaining) bytes too early")
        }
        defer { position += count }
        return Array(bytes[position..<(position + count)])
    }

    /// Reads all remaining bytes.
    package mutating func readRest() -> [UInt8] {
        defer { position = bytes.count }
        return Array(bytes[position...])
    }

    /// Reads an integer, most significant byte first.
    fileprivate mutating func readInteger<T: FixedWidthInteger>() throws(TPMError) -> T {
        let count = T.bitWidth / 8
        guard count <= remaining else {
            throw .malformed("it ends \(count - remaining) bytes too early")
        }
        var value: T = 0
        for byte in bytes[position..<(position + count)] {
            value = value << 8 | T(truncatingIfNeeded: byte)
        }
        position += count
        return value
    }

    /// Reads a `TPM2B` of at most `maximum` bytes.
    package mutating func readSized(maximum: Int) throws(TPMError) -> [UInt8] {
        let count = Int(try read(UInt16.self))
        guard count <= maximum else {
            throw .malformed("a field has \(count) bytes and may have \(maximum)")
        }
        return try readBytes(count)
    }

    /// Reads a structure that fills a `TPM2B` of at most `maximum` bytes.
    package mutating func readSized<T: TPMUnmarshallable>(_ type: T.Type, maximum: Int)
        throws(TPMError) -> T
    {
        try T(unmarshalling: try readSized(maximum: maximum))
    }

    /// Reads a structure or an integer.
    package mutating func read<T: TPMUnmarshallable>(_ type: T.Type = T.self) throws(TPMError) -> T
    {
        try T(from: &self)
    }

    /// Reads a `TPMI_YES_NO`: 0 or 1.
    mutating func readFlag() throws(TPMError) -> Bool {
        switch try read(UInt8.self) {
        case 0: return false
        case 1: return true
        case let other: throw .malformed("a TPMI_YES_NO field has the value \(other)")
        }
    }

    /// Reads a list after its 32-bit count of at most `maximum`.
    package mutating func readList<T: TPMUnmarshallable>(maximum: Int) throws(TPMError) -> [T] {
        let count = try read(UInt32.self)
        guard count <= maximum else {
            throw .malformed("a list has \(count) elements and may have \(maximum)")
        }
        var list: [T] = []
        for _ in 0..<count { list.append(try read()) }
        return list
    }

    /// Requires that no bytes remain.
    package func finish() throws(TPMError) {
        guard remaining == 0 else { throw .malformed("\(remaining) bytes are left over") }
    }

    /// Erases the bytes of a reader that held a secret, and moves to the end.
    mutating func wipe() {
        bytes.withUnsafeMutableBytes { wipeMemory($0) }
        position = bytes.count
    }
}

extension TPMUnmarshallable where Self: FixedWidthInteger {
    /// Reads an integer, most significant byte first.
    package init(from reader: inout TPMReader) throws(TPMError) {
        self = try reader.readInteger()
    }
}

extension UInt8: TPMMarshallable, TPMUnmarshallable {}
extension UInt16: TPMMarshallable, TPMUnmarshallable {}
extension UInt32: TPMMarshallable, TPMUnmarshallable {}
extension UInt64: TPMMarshallable, TPMUnmarshallable {}
extension Int32: TPMMarshallable {}

/// A number with a type of its own, such as a handle, an algorithm or a set of attributes.
package protocol TPMNumber: RawRepresentable, TPMMarshallable, TPMUnmarshallable
where RawValue: TPMMarshallable & TPMUnmarshallable {
    init(rawValue: RawValue)
}

extension TPMNumber {
    package init(from reader: inout TPMReader) throws(TPMError) {
        self.init(rawValue: try reader.read())
    }
    package func marshal(into writer: inout TPMWriter) { rawValue.marshal(into: &writer) }
}
