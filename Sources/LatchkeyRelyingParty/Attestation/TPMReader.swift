internal import FoundationEssentials

/// Reads a TPM's structures: big-endian numbers and byte strings with their length before them (TPM 2.0 Part 2
/// section 4). Never reads past the end.
struct TPMReader {
    private var rest: Data.SubSequence
    private let structure: String

    init(_ bytes: Data, structure: String) {
        rest = bytes[...]
        self.structure = structure
    }

    mutating func uint16() throws(AttestationError) -> UInt16 { try number(2) }
    mutating func uint32() throws(AttestationError) -> UInt32 { try number(4) }

    /// A `TPM2B`: a length in two bytes, then that many bytes.
    mutating func sized() throws(AttestationError) -> Data { try take(Int(uint16())) }

    mutating func skip(_ count: Int) throws(AttestationError) { _ = try take(count) }

    /// Refuses bytes that are left over.
    func finish() throws(AttestationError) {
        guard rest.isEmpty else { throw AttestationError(.malformed, "\(structure) has \(rest.count) bytes too many") }
    }

    private mutating func take(_ count: Int) throws(AttestationError) -> Data {
        guard rest.count >= count else { throw AttestationError(.malformed, "\(structure) ends too soon") }
        defer { rest = rest.dropFirst(count) }
        return Data(rest.prefix(count))
    }

    private mutating func number<Number: FixedWidthInteger>(_ count: Int) throws(AttestationError) -> Number {
        try take(count).reduce(0) { $0 << 8 | Number($1) }
    }
}
