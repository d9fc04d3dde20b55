/// A structure that can be written in the TPM's wire format.
package protocol TPMMarshallable {
    /// Writes the structure in the order that the specification defines.
    func marshal(into writer: inout TPMWriter)
}

extension TPMMarshallable {
    /// The structure in wire format.
    package var marshalled: [UInt8] {
        var writer = TPMWriter()
        marshal(into: &writer)
        return writer.bytes
    }
}

/// Writes the TPM's wire format: big-endian integers, and byte strings after a 16-bit size
/// (`TPM2B`).
///
/// TPM 2.0 Part 2 section 4 and Part 1 section "Canonicalization".
package struct TPMWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []

    /// Creates a writer with the values.
    package init(_ values: any TPMMarshallable...) {
        for value in values { value.marshal(into: &self) }
    }

    /// Creates a writer whose buffer does not move before it holds `capacity` bytes, so that no
    /// copy of a secret is left in memory.
    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// Appends bytes without a size.
    package mutating func write(_ value: some Sequence<UInt8>) {
        bytes.append(contentsOf: value)
    }

    /// Appends the values.
    package mutating func write(_ values: any TPMMarshallable...) {
        for value in values { value.marshal(into: &self) }
    }

    /// Appends a `TPM2B`: the number of bytes, then the bytes.
    package mutating func writeSized(_ value: some Collection<UInt8>) {
        // All sizes in the protocol have 16 bits. The transport rejects commands of more than 4096
        // bytes, so a truncated size cannot reach a TPM.
        write(UInt16(truncatingIfNeeded: value.count))
        write(value)
    }

    /// Erases the bytes of a writer that held a secret.
    mutating func wipe() {
        bytes.withUnsafeMutableBytes { wipeMemory($0) }
        bytes = []
    }
}

extension TPMMarshallable where Self: FixedWidthInteger {
    /// Writes an integer, most significant byte first.
    package func marshal(into writer: inout TPMWriter) {
        withUnsafeBytes(of: bigEndian) { writer.write($0) }
    }
}

/// Bytes after their 16-bit count, for values that are not secret.
package struct TPM2B: TPMMarshallable {
    private let bytes: [UInt8]

    /// Wraps the bytes, by default none.
    package init(_ bytes: [UInt8] = []) { self.bytes = bytes }

    /// Wraps a structure.
    package init(_ value: some TPMMarshallable) { bytes = value.marshalled }

    package func marshal(into writer: inout TPMWriter) { writer.writeSized(bytes) }
}

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

    /// Reads a `TPM2B` that may be secret, and erases the copy.
    mutating func readSensitive(maximum: Int) throws(TPMError) -> SensitiveData {
        var data = try readSized(maximum: maximum)
        defer { data.withUnsafeMutableBytes { wipeMemory($0) } }
        return SensitiveData(data)
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
