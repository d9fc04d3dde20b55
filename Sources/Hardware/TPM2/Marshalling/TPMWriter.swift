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
