internal import Crypto
internal import FoundationEssentials

/// A digest of a key's ID and label, which the key's stored bytes record.
///
/// Every program of the user can write the rows of the store, so an attacker can move a label to
/// another key. A row whose ID or label differs from the recorded digest is damaged; checking that
/// needs no hardware. An attacker can also write another digest, so a keystore derives the key's
/// authorization from the digest if possible: then the hardware refuses the key.
package struct KeyBinding: Hashable, Sendable {
    /// 32 bytes.
    package let digest: [UInt8]

    /// `SHA-256("latchkey/key/binding/v1" ‖ ID ‖ label)`, each preceded by its length as eight
    /// bytes in big-endian order. A missing label and an empty label give different digests.
    package init(id: KeyID, label: String?) {
        var hash = SHA256()
        for text in ["latchkey/key/binding/v1", id.rawValue] + [label].compactMap(\.self) {
            withUnsafeBytes(of: UInt64(text.utf8.count).bigEndian) {
                hash.update(bufferPointer: $0)
            }
            hash.update(data: Data(text.utf8))
        }
        digest = Array(hash.finalize())
    }

    package init(_ key: HardwareKey) {
        self.init(id: key.id, label: key.label)
    }

    /// - Returns: nil unless `digest` has 32 bytes.
    package init?(digest: some Sequence<UInt8>) {
        self.digest = Array(digest)
        guard self.digest.count == SHA256.byteCount else { return nil }
    }

    /// Checks a key against the binding that its stored bytes record.
    ///
    /// - Throws: ``KeystoreError`` with code `damaged`.
    package static func check(
        _ recorded: KeyBinding?, of key: HardwareKey
    ) throws(KeystoreError) {
        guard recorded == KeyBinding(key) else {
            throw .damaged("the key's ID or label does not match the stored key data")
        }
    }
}
