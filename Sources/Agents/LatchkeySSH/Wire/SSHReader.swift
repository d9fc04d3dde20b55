/// Reads the data types of SSH (RFC 4251 section 5) from untrusted bytes.
package struct SSHReader {
    /// The bytes that are not read yet.
    package private(set) var rest: ArraySlice<UInt8>

    package init(_ bytes: some Sequence<UInt8>) { rest = Array(bytes)[...] }

    package var isAtEnd: Bool { rest.isEmpty }

    package mutating func byte() throws(SSHFormatError) -> UInt8 {
        guard let byte = rest.popFirst() else { throw SSHFormatError("the data ends early") }
        return byte
    }

    /// `boolean`: any value except 0 is true.
    package mutating func boolean() throws(SSHFormatError) -> Bool { try byte() != 0 }

    package mutating func uint32() throws(SSHFormatError) -> UInt32 {
        var number: UInt32 = 0
        for byte in try bytes(4) { number = number << 8 | UInt32(byte) }
        return number
    }

    package mutating func uint64() throws(SSHFormatError) -> UInt64 {
        let high = try uint32()
        return UInt64(high) << 32 | UInt64(try uint32())
    }

    package mutating func bytes(_ count: Int) throws(SSHFormatError) -> [UInt8] {
        guard count <= rest.count else { throw SSHFormatError("the data ends early") }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// `string`: a length of 4 bytes, then that many bytes.
    package mutating func string() throws(SSHFormatError) -> [UInt8] {
        let count = try uint32()
        return try bytes(Int(count))
    }

    /// A `string` that must be UTF-8.
    package mutating func text() throws(SSHFormatError) -> String {
        guard let text = String(validating: try string(), as: UTF8.self) else {
            throw SSHFormatError("a text is not UTF-8")
        }
        return text
    }

    /// `mpint` that is not negative: the number without leading zeros, big-endian.
    package mutating func magnitude() throws(SSHFormatError) -> [UInt8] {
        let bytes = try string()
        guard bytes.first.map({ $0 < 0x80 }) ?? true else {
            throw SSHFormatError("a number is negative")
        }
        return Array(bytes.drop { $0 == 0 })
    }

    /// Checks that all bytes were read.
    package func end() throws(SSHFormatError) {
        guard rest.isEmpty else { throw SSHFormatError("\(rest.count) bytes follow the data") }
    }
}

/// Bytes that do not have the expected format.
package struct SSHFormatError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, as a clause without text from the bytes.
    package let description: String

    package init(_ description: String) { self.description = description }
}
