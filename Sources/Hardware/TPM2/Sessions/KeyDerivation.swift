package import Crypto
internal import FoundationEssentials
internal import Glibc

/// The two key derivation functions of a TPM, over SHA-256, for results of one block: 32 bytes (TPM
/// 2.0 Part 1 sections 11.4.10.2 and 11.4.10.3).
package enum KeyDerivation {
    /// The counter of the first block.
    private static let counter = UInt32(1).marshalled

    /// KDFa: SP800-108 in counter mode with HMAC.
    package static func kdfa(
        key: SymmetricKey, label: String, contextU: [UInt8], contextV: [UInt8]
    ) -> SymmetricKey {
        var mac = HMAC<SHA256>(key: key)
        mac.update(
            data: counter + Array(label.utf8) + [0] + contextU + contextV + UInt32(256).marshalled)
        return SymmetricKey(data: mac.finalize())
    }

    /// KDFe: SP800-56A over the x coordinate of an ECDH exchange.
    ///
    /// - Parameters:
    ///   - partyU: The x coordinate of the ephemeral key.
    ///   - partyV: The x coordinate of the TPM's key.
    package static func kdfe(
        sharedSecret: SharedSecret, label: String, partyU: [UInt8], partyV: [UInt8]
    ) -> SymmetricKey {
        var hash = SHA256()
        hash.update(data: counter)
        sharedSecret.withUnsafeBytes { hash.update(bufferPointer: $0) }
        hash.update(data: Array(label.utf8) + [0] + partyU + partyV)
        return SymmetricKey(data: hash.finalize())
    }
}

extension SymmetricKey {
    /// The number of bytes.
    var byteCount: Int { bitCount / 8 }

    /// Concatenates two keys in a buffer that is erased afterwards.
    static func + (left: SymmetricKey, right: SymmetricKey) -> SymmetricKey {
        withUnsafeTemporaryAllocation(
            byteCount: max(left.byteCount + right.byteCount, 1), alignment: 1
        ) { buffer in
            defer { wipeMemory(buffer) }
            left.withUnsafeBytes { buffer.copyMemory(from: $0) }
            right.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[left.byteCount...]).copyMemory(
                    from: $0)
            }
            return SymmetricKey(data: buffer[..<(left.byteCount + right.byteCount)])
        }
    }

    /// Returns a range of the key's bytes.
    func slice(_ range: Range<Int>) -> SymmetricKey {
        withUnsafeBytes { SymmetricKey(data: UnsafeRawBufferPointer(rebasing: $0[range])) }
    }
}

/// Erases memory. The optimizer does not remove this call.
func wipeMemory(_ buffer: UnsafeMutableRawBufferPointer) {
    if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
}
