internal import FoundationEssentials

/// What one secret is put into that has to be kept although its class may be locked by then: it can be sealed at any
/// time, and is opened only while the class is open.
///
/// The envelope has a key of its own, of which the only other copy is under the class's key. So a lock leaves nothing in
/// memory with which anything stored could be read.
package struct ClassEnvelope: Sendable {
    /// Version, nonce, key and tag: see ``ClassKey/seal(_:header:)``.
    private static let wrappedKeyBytes = 1 + 12 + ClassKey.byteCount + 16

    private let key: ClassKey
    private let wrappedKey: Data
    private let header: Data

    fileprivate init(_ opened: ClassKey, header: Data) throws {
        let secret = SecretBytes.random(count: ClassKey.byteCount)
        key = ClassKey(secret)
        wrappedKey = try opened.seal(secret, header: header)
        self.header = header
    }

    /// The secret, 110 bytes longer, as ciphertext.
    package func seal(_ secret: SecretBytes) throws(KeystoreError) -> SecretBytes {
        do {
            return SecretBytes(try wrappedKey + key.seal(secret, header: header))
        } catch {
            throw KeystoreError(storing: "seal an envelope", error)
        }
    }

    fileprivate static func open(_ sealed: Data, _ opened: ClassKey, header: Data) throws -> SecretBytes {
        let key = ClassKey(try opened.open(sealed.prefix(wrappedKeyBytes), header: header))
        return try key.open(sealed.dropFirst(wrappedKeyBytes), header: header)
    }
}

extension RecordContainer {
    /// An envelope for what belongs to a record.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongState` when the class is locked.
    package func envelope(
        of protection: ProtectionClass, for id: RecordID
    ) throws(KeystoreError) -> ClassEnvelope {
        guard let opened = session(protection)?.opened else { throw Self.locked(protection, id) }
        do {
            return try ClassEnvelope(opened, header: envelopeHeader(protection, id))
        } catch {
            throw KeystoreError(storing: "seal an envelope", error)
        }
    }

    /// What is in an envelope.
    ///
    /// - Throws: ``KeystoreError``; `wrongState` when the class is locked, `damaged` when the envelope is not of this
    ///   class and record.
    package func open(
        _ sealed: SecretBytes, of protection: ProtectionClass, for id: RecordID
    ) throws(KeystoreError) -> SecretBytes {
        guard let opened = session(protection)?.opened else { throw Self.locked(protection, id) }
        guard
            let secret = try? ClassEnvelope.open(
                sealed.withUnsafeBytes { Data($0) }, opened, header: envelopeHeader(protection, id))
        else { throw Self.edited(id) }
        return secret
    }

    /// No name has a control character, so no two give the same bytes.
    private func envelopeHeader(_ protection: ProtectionClass, _ id: RecordID) -> Data {
        Data("latchkey envelope v1\0\(name)\0\(protection.name)\0\(id)".utf8)
    }
}
