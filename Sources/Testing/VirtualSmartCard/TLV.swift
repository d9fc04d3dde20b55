/// A BER-TLV data object (ISO/IEC 7816-4 section 5.2.2).
struct TLV: Hashable {
    let tag: UInt16
    let value: [UInt8]

    init(_ tag: UInt16, _ value: [UInt8]) {
        self.tag = tag
        self.value = value
    }

    /// Parses a sequence of data objects.
    ///
    /// - Throws: ``StatusWord/incorrectData`` if a tag or a length has more than two bytes, or a
    ///   value extends past the end.
    static func parse(_ bytes: [UInt8]) throws(StatusWord) -> [TLV] {
        var list: [TLV] = []
        var rest = bytes[...]
        while let first = rest.popFirst() {
            var tag = UInt16(first)
            if first & 0x1F == 0x1F {
                guard let second = rest.popFirst(), second & 0x80 == 0 else { throw .incorrectData }
                tag = tag << 8 | UInt16(second)
            }
            let length = try length(&rest)
            guard rest.count >= length else { throw .incorrectData }
            list.append(TLV(tag, Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return list
    }

    private static func length(_ rest: inout ArraySlice<UInt8>) throws(StatusWord) -> Int {
        guard let first = rest.popFirst() else { throw .incorrectData }
        guard first & 0x80 != 0 else { return Int(first) }
        let count = Int(first & 0x7F)
        guard (1...2).contains(count), rest.count >= count else { throw .incorrectData }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | Int($1) }
    }

    /// The encoding with the shortest length.
    var bytes: [UInt8] {
        let tagBytes = tag > 0xFF ? [UInt8(tag >> 8), UInt8(tag & 0xFF)] : [UInt8(tag)]
        let count = value.count
        let lengthBytes: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default:
                [0x82, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
            }
        return tagBytes + lengthBytes + value
    }
}

extension [TLV] {
    /// The value of the first data object with this tag.
    subscript(tag tag: UInt16) -> [UInt8]? { first { $0.tag == tag }?.value }

    var bytes: [UInt8] { flatMap(\.bytes) }
}
