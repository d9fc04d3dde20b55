public import Latchkey
internal import SwiftASN1

extension TPMKeystore {
    /// A key as a `TSS2 PRIVATE KEY` in PEM, which openssl's tpm2 provider, ssh-tpm-agent and tpm2-tools read.
    ///
    /// The private half stays wrapped by the TPM. A key without a PIN works there as it is. One with a PIN asks for its
    /// authValue, which is derived from the PIN and a salt that this file does not have: it can be looked at, and
    /// used with Latchkey only.
    ///
    /// - Throws: `KeystoreError` with code `damaged` or `wrongDevice` when it is no key of a TPM.
    public static func tss2PrivateKey(of key: HardwareKey) throws(KeystoreError) -> String {
        let operation = "export a key"
        guard key.backend == "tpm" else {
            throw .wrongDevice(operation, "it belongs to a keystore of the kind \(key.backend)")
        }
        do {
            var serializer = DER.Serializer()
            try serializer.serialize(try TPMKeyBlob(key.blob).key)
            return PEMDocument(type: TSS2PrivateKey.pemType, derBytes: serializer.serializedBytes).pemString
        } catch {
            throw .damaged(operation, "its stored bytes can't be read: \(error)")
        }
    }
}
