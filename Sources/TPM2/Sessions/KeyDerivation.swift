package import Crypto
internal import FoundationEssentials
internal import Glibc

/// The two key derivation functions of a TPM, over SHA-256 (TPM 2.0 Part 1 sections 11.4.10.2 and 11.4.10.3).
package enum KeyDerivation {
    /// KDFa: SP800-108 in counter mode with HMAC.
    ///
    /// - Parameter count: The length of the result in bytes.
    package static func kdfa(
        key: SymmetricKey, label: String, contextU: [UInt8], contextV: [UInt8], count: Int
    ) -> SymmetricKey {
        collect(count) { counter in
            var mac = HMAC<SHA256>(key: key)
            mac.update(data: counter.bigEndianBytes)
            mac.update(data: Array(label.utf8) + [0])
            mac.update(data: contextU)
            mac.update(data: contextV)
            mac.update(data: UInt32(count * 8).bigEndianBytes)
            return mac.finalize()
        }
    }

    /// KDFe: SP800-56A over the x coordinate of an ECDH exchange.
    ///
    /// - Parameters:
    ///   - partyU: The x coordinate of the ephemeral key.
    ///   - partyV: The x coordinate of the TPM's key.
    ///   - count: The length of the result in bytes.
    package static func kdfe(
        sharedSecret: SharedSecret, label: String, partyU: [UInt8], partyV: [UInt8], count: Int
    ) -> SymmetricKey {
        collect(count) { counter in
            var hash = SHA256()
            hash.update(data: counter.bigEndianBytes)
            sharedSecret.withUnsafeBytes { hash.update(bufferPointer: $0) }
            hash.update(data: Array(label.utf8) + [0])
            hash.update(data: partyU)
            hash.update(data: partyV)
            return hash.finalize()
        }
    }

    /// Concatenates 32-byte blocks, numbered from 1, up to `count` bytes.
    private static func collect(_ count: Int, _ block: (UInt32) -> some ContiguousBytes) -> SymmetricKey {
        SymmetricKey(count: count) { buffer in
            var filled = 0
            var counter: UInt32 = 1
            while filled < count {
                block(counter).withUnsafeBytes { bytes in
                    let taken = min(bytes.count, count - filled)
                    UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<(filled + taken)])
                        .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
                    filled += taken
                }
                counter += 1
            }
        }
    }
}

extension SymmetricKey {
    /// Creates a key of `count` bytes. `body` writes them into a buffer that is erased afterwards.
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

    /// Concatenates two keys.
    static func + (left: SymmetricKey, right: SymmetricKey) -> SymmetricKey {
        SymmetricKey(count: left.byteCount + right.byteCount) { buffer in
            left.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: buffer[..<$0.count]).copyMemory(from: $0) }
            right.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[left.byteCount...]).copyMemory(from: $0)
            }
        }
    }

    /// Returns a range of the key's bytes.
    func slice(_ range: Range<Int>) -> SymmetricKey {
        withUnsafeBytes { SymmetricKey(data: UnsafeRawBufferPointer(rebasing: $0[range])) }
    }
}

extension UInt32 {
    /// The four bytes, most significant first.
    var bigEndianBytes: [UInt8] {
        Swift.withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}

/// Erases memory. The optimizer does not remove this call.
func wipeMemory(_ buffer: UnsafeMutableRawBufferPointer) {
    if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
}
