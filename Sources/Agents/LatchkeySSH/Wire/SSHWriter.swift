/// Writes the data types of SSH (RFC 4251 section 5).
package struct SSHWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func byte(_ value: UInt8) { bytes.append(value) }

    package mutating func uint32(_ value: UInt32) {
        for shift in [24, 16, 8, 0] as [UInt32] {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    package mutating func raw(_ value: some Sequence<UInt8>) { bytes += value }

    /// `string`. The value must have fewer than 2³² bytes, which the limit of a message guarantees.
    package mutating func string(_ value: some Collection<UInt8>) {
        uint32(UInt32(truncatingIfNeeded: value.count))
        bytes += value
    }

    package mutating func string(_ value: String) { string(value.utf8) }

    /// `mpint` of a non-negative big-endian number.
    package mutating func mpint(_ value: some Sequence<UInt8>) {
        let digits = Array(value.drop { $0 == 0 })
        string(digits.first.map { $0 >= 0x80 } ?? false ? [0] + digits : digits)
    }
}
