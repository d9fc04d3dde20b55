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
        let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: max(1, rows.reduce(0) { $0 + $1.value.count }))
        defer { bytes.deallocate() }
        var attributes: [CK_ATTRIBUTE] = []
        var end = bytes
        for (type, value) in rows {
            end.initialize(from: value, count: value.count)
            attributes.append(CK_ATTRIBUTE(type: type, pValue: end, ulValueLen: CK_ULONG(value.count)))
            end += value.count
        }
        return attributes.withUnsafeMutableBufferPointer { body($0.baseAddress, CK_ULONG($0.count)) }
    }
}
