internal import CPKCS11
internal import FoundationEssentials

/// Attributes that are given to a module, laid out anew for each call: modules write into templates.
struct AttributeTemplate {
    private var rows: [(type: UInt, value: [UInt8])] = []

    mutating func set(_ type: UInt, _ value: some Sequence<UInt8>) { rows.append((type, Array(value))) }
    mutating func set(_ type: UInt, _ value: Bool) { set(type, [value ? 1 : 0]) }
    mutating func set(_ type: UInt, _ value: UInt) { set(type, withUnsafeBytes(of: value) { Array($0) }) }

    /// Lends the template as Cryptoki has it.
    func withAttributes<R>(_ body: (UnsafeMutablePointer<CK_ATTRIBUTE>?, CK_ULONG) -> R) -> R {
        // Modules read numbers as `CK_ULONG *`: each value begins where one may be.
        let alignment = MemoryLayout<CK_ULONG>.alignment
        func room(_ count: Int) -> Int { (count + alignment - 1) / alignment * alignment }
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: rows.reduce(alignment) { $0 + room($1.value.count) }, alignment: alignment)
        defer { bytes.deallocate() }
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        var attributes: [CK_ATTRIBUTE] = []
        var start = 0
        for (type, value) in rows {
            let place = UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + value.count])
            place.copyBytes(from: value)
            attributes.append(
                CK_ATTRIBUTE(
                    type: type, pValue: bytes.baseAddress.map { $0 + start }, ulValueLen: CK_ULONG(value.count)))
            start += room(value.count)
        }
        return attributes.withUnsafeMutableBufferPointer { body($0.baseAddress, CK_ULONG($0.count)) }
    }
}
