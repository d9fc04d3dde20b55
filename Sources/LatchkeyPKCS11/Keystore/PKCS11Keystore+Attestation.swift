public import FoundationEssentials
public import Latchkey

extension PKCS11Keystore {
    /// The certificate that a YubiKey made for a key of its own, in the format `KeyAttestation.piv`. It was taken when
    /// the key was made or adopted, and is stored with it; the card is not asked again.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a key without one.
    public func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
        let operation = "attest a key"
        guard (8...32).contains(challenge.count) else {
            throw .invalidInput(operation, "the challenge has \(challenge.count) bytes and must have 8 to 32")
        }
        let blob = try TokenKeyBlob.of(key, operation)
        guard blob.attestation.count == 2 else {
            throw .unsupported(
                operation, "the token gave no attestation for this key",
                recovery: "YubiKeys attest the keys that they generated, through Yubico's own module.")
        }
        do {
            return KeyAttestation(
                format: KeyAttestation.piv, statement: blob.attestation[0], signature: Data(),
                publicArea: key.publicKey.x963Representation,
                attestationKey: try PIVAttestation.issuerKey(of: blob.attestation[1]),
                certificates: [blob.attestation[1]])
        } catch {
            throw .damaged(operation, "the stored attestation can't be read: \(error)")
        }
    }
}
