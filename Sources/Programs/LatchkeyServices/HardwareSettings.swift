package import Latchkey
package import LatchkeyPKCS11
internal import LatchkeyTPM

/// The hardware that the settings name: the TPM, and a token in place of it.
package struct HardwareSettings: Sendable {
    /// The backend of keys in the TPM, as stored in their records.
    private static let tpmBackend = "tpm"

    package let tcti: String
    package let token: TokenSettings
    private let allowsShortPINs: Bool

    package init(tcti: String, token: TokenSettings, allowsShortPINs: Bool = false) {
        (self.tcti, self.token, self.allowsShortPINs) = (tcti, token, allowsShortPINs)
    }

    /// The token if one is configured, otherwise the TPM. Connects at the first use.
    ///
    /// - Parameter slot: The slot of a PIV card for the next created key.
    package func keystore(_ store: RecordStore, slot: PIVSlot? = nil) -> any Keystore {
        guard let uri = token.uri else { return tpm(store) }
        var options = token.options
        options.slot = slot
        return PKCS11Keystore(uri: uri, options: options, anchors: store)
    }

    /// The records of a container whose settings and certificates belong to keys in any hardware.
    /// If the TPM protects the records, this is the TPM also with a configured token.
    package func records(_ name: String, in store: RecordStore) async throws(KeystoreError)
        -> RecordContainer
    {
        let records = try RecordContainer(name: name, store: store, keystore: keystore(store))
        guard token.uri != nil, try await records.sealingBackend() == Self.tpmBackend else {
            return records
        }
        return try RecordContainer(name: name, store: store, keystore: tpm(store))
    }

    /// The keystore of a stored key, wherever it is: the configured hardware if it is of the key's
    /// kind, otherwise the TPM, or the token that the key names.
    package func keystore(of key: HardwareKey, in store: RecordStore) throws(KeystoreError)
        -> any Keystore
    {
        let configured = keystore(store)
        guard key.backend != configured.backend else { return configured }
        if key.backend == Self.tpmBackend { return tpm(store) }
        return try PKCS11Keystore(
            uri: PKCS11Keystore.location(of: key), options: token.options, anchors: store)
    }

    /// The hardware that contains a stored key, so that keys in the same hardware can share a
    /// keystore.
    package func place(of key: HardwareKey) throws(KeystoreError) -> String {
        guard key.backend != Self.tpmBackend else { return key.backend }
        return try PKCS11Keystore.location(of: key)
    }

    private func tpm(_ store: RecordStore) -> any Keystore {
        TPMKeystore(tcti: tcti, anchors: store, allowsShortPINs: allowsShortPINs)
    }
}
