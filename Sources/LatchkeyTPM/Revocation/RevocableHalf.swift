internal import Crypto
internal import Latchkey
internal import TPM2

/// The part of a revocable secret that the TPM keeps, in an NV index of its own: 32 random bytes. The secret is that XOR
/// what is sealed, so either alone says nothing, and when the index is gone the secret is gone.
///
/// The index lets nobody read it but who shows an authValue that is derived from the sealed part: not the owner, and not
/// who has copied the store and does not get the TPM to unseal. The TPM doesn't count wrong ones (`noDA`); there is
/// nothing to guess. Anybody who may speak for the owner can remove the index, as they can clear the TPM.
///
/// Its policy is a random number that nothing satisfies and nothing asks for. It makes the Name the index's alone: another
/// index at the same handle, in this TPM or another one, is never taken for it.
struct RevocableHalf: Hashable, Sendable {
    static let byteCount = 32
    /// Where the indices are, in the range that the TCG's registry of reserved handles leaves to the owner, behind the
    /// presence broker's.
    static let indices = UInt32(0x0180_4d00)..<0x0180_4dff

    private static let attributes: NVAttributes = [.authRead, .authWrite, .noDA]
    private static let info = Array("latchkey/tpm/revocable/v1".utf8)

    /// As it is after its one write.
    let index: NVIndex

    /// - Throws: ``TPMError`` of kind `malformed` unless it is an area that ``unwritten(at:)`` makes, written.
    init(_ publicArea: NVPublicArea) throws(TPMError) {
        guard Self.indices.contains(publicArea.index.rawValue), publicArea.nameAlgorithm == .sha256,
            publicArea.attributes == Self.attributes.union(.written), publicArea.authPolicy.count == SHA256.byteCount,
            publicArea.dataSize == Self.byteCount
        else { throw TPMError(.malformed, reason: "the index of a secret's other half has another form") }
        index = try NVIndex(publicArea: publicArea)
    }

    /// The public area of a new index before its write.
    static func unwritten(at place: TPMHandle) -> NVPublicArea {
        NVPublicArea(
            index: place, attributes: attributes,
            authPolicy: SecretBytes.random(count: SHA256.byteCount).withUnsafeBytes { Array($0) },
            dataSize: UInt16(byteCount))
    }

    /// `HKDF-SHA256(the sealed part, no salt, "latchkey/tpm/revocable/v1", 32 bytes)`.
    static func authValue(_ sealed: SecretBytes) throws(TPMError) -> AuthValue {
        let derived = sealed.withUnsafeBytes { bytes in
            HKDF<SHA256>.deriveKey(inputKeyMaterial: SymmetricKey(data: bytes), info: info, outputByteCount: 32)
        }
        guard let value = derived.withUnsafeBytes({ AuthValue($0) }) else {
            throw TPMError(.unsupported, reason: "a derived authValue is too long")
        }
        return value
    }

    /// Whether the TPM's answer to a reading says that the index is not there, or that another one is in its place.
    static func isMissed(_ code: ResponseCode) -> Bool {
        switch code {
        case .handle, .badAuth, .authFail, .authUnavailable, .authType, .nvUninitialized: true
        default: false
        }
    }
}

extension SecretBytes {
    /// Both must have the same number of bytes.
    func exclusiveOr(_ other: SecretBytes) -> SecretBytes {
        SecretBytes(count: count) { buffer in
            withUnsafeBytes { buffer.copyMemory(from: $0) }
            other.withUnsafeBytes { bytes in
                for (index, byte) in bytes.enumerated() { buffer[index] ^= byte }
            }
        }
    }
}
