/// Builds the TPM's wire form: big-endian integers and byte strings with a 16-bit size in front (`TPM2B`).
///
/// TPM 2.0 Part 2 section 4 and Part 1 section "Canonicalization".
public struct TPMWriter {
    /// What was written so far.
    public private(set) var bytes: [UInt8] = []

    /// Nothing written yet.
    public init() {}

    /// A writer that won't move its bytes before it has `capacity` of them, so that no copy of a secret is left behind.
    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// Appends an integer, most significant byte first.
    public mutating func write(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// Appends bytes as they are.
    public mutating func write(_ value: some Sequence<UInt8>) {
        bytes.append(contentsOf: value)
    }

    /// Appends a structure.
    public mutating func write(_ value: some TPMMarshallable) {
        value.marshal(into: &self)
    }

    /// Appends a `TPM2B`: the number of bytes, then the bytes.
    public mutating func writeSized(_ value: some Collection<UInt8>) {
        // Every size in the protocol has 16 bits and a command has at most 4096 bytes; the transport refuses longer
        // ones, so the truncation can't reach a TPM.
        write(UInt16(truncatingIfNeeded: value.count))
        write(value)
    }

    /// Appends a structure inside of a `TPM2B`.
    public mutating func writeSized(_ value: some TPMMarshallable) {
        writeSized(value.marshalled)
    }

    /// Clears what was written, for a writer that held a secret.
    mutating func wipe() {
        bytes.withUnsafeMutableBytes { wipeMemory($0) }
        bytes = []
    }
}
