package import Crypto

extension SymmetricKey {
    /// A key of `count` bytes which `body` writes into memory that is cleared afterwards.
    package init(count: Int, initializingWith body: (UnsafeMutableRawBufferPointer) -> Void) {
        self = withUnsafeTemporaryAllocation(byteCount: max(count, 1), alignment: 1) { buffer in
            defer { wipeMemory(buffer) }
            let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            body(bytes)
            return SymmetricKey(data: UnsafeRawBufferPointer(bytes))
        }
    }

    /// The number of bytes.
    var byteCount: Int { bitCount / 8 }

    /// Both keys, one after the other.
    static func + (left: SymmetricKey, right: SymmetricKey) -> SymmetricKey {
        SymmetricKey(count: left.byteCount + right.byteCount) { buffer in
            left.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: buffer[..<$0.count]).copyMemory(from: $0) }
            right.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[left.byteCount...]).copyMemory(from: $0)
            }
        }
    }

    /// Some bytes of the key.
    func slice(_ range: Range<Int>) -> SymmetricKey {
        withUnsafeBytes { SymmetricKey(data: UnsafeRawBufferPointer(rebasing: $0[range])) }
    }
}

extension UInt32 {
    /// Four bytes, most significant first.
    var bigEndianBytes: [UInt8] {
        Swift.withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}
