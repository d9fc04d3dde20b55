package import Latchkey
package import LatchkeyPKCS11
internal import LatchkeyTPM

/// The hardware that the settings name: the TPM, and a token in place of it. Keystores connect at
/// their first use.
extension ProgramSettings {
    /// The backend of keys in the TPM, as stored in their records.
    private static let tpmBackend = "tpm"

    /// Opens the store; creates it if it does not exist.
    ///
    /// - Throws: The error of ``RecordStore/init(directory:)`` with the advice to select another
    ///   directory.
    package func openedStore() async throws(KeystoreError) -> RecordStore {
        try await opening { () async throws(KeystoreError) in
            try await RecordStore(directory: store)
        }
    }

    /// Opens the store for a program that adds nothing to it. Creates nothing: without a store, it is
    /// empty.
    ///
    /// - Throws: As ``openedStore()``; `notFound` if there is no store in the directory that an
    ///   option names.
    package func existingStore() async throws(KeystoreError) -> RecordStore {
        let opened = try await opening { () async throws(KeystoreError) in
            try await RecordStore(existing: store)
        }
        guard opened.isMissing, values.source(of: .store) == .option else { return opened }
        throw .notFound("there is no store at \(store)", recovery: "Correct --store.")
    }

    private func opening(
        _ open: () async throws(KeystoreError) -> RecordStore
    ) async throws(KeystoreError) -> RecordStore {
        do throws(KeystoreError) {
            try OwnPlace.check(store)
            return try await open()
        } catch {
            throw error.with(
                reason: "the store cannot be opened: \(error.reason)",
                recovery: error.recoveryAction.then(
                    "To select a directory, use --store or LATCHKEY_STORE."))
        }
    }

    /// The token if one is configured, otherwise the TPM.
    ///
    /// - Parameter slot: The slot of a PIV card for the next created key.
    package func keystore(_ store: RecordStore, slot: PIVSlot? = nil) -> any Keystore {
        guard let token else { return tpm(store) }
        var options = tokenOptions
        options.slot = slot
        return PKCS11Keystore(uri: token, options: options, anchors: store)
    }

    /// The container's records in the configured hardware.
    package func records(in store: RecordStore, slot: PIVSlot? = nil) throws(KeystoreError)
        -> RecordContainer
    {
        try RecordContainer(name: container, store: store, keystore: keystore(store, slot: slot))
    }

    /// The container's records, whose settings and certificates belong to keys in any hardware. If
    /// the TPM protects the records, this is the TPM also with a configured token.
    package func recordsOfAnyHardware(in store: RecordStore) async throws(KeystoreError)
        -> RecordContainer
    {
        let records = try records(in: store)
        guard token != nil, try await records.sealingBackend() == Self.tpmBackend else {
            return records
        }
        return try RecordContainer(name: container, store: store, keystore: tpm(store))
    }

    /// Checks that the hardware of the container's records is configured.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongDevice` if a token protects them, and none is
    ///   configured.
    package func checkHardware(of records: RecordContainer) async throws(KeystoreError) {
        guard token == nil, let backend = try await records.sealingBackend(),
            backend != Self.tpmBackend
        else { return }
        throw KeystoreError(
            code: .wrongDevice,
            reason: "a token protects the container ‘\(container)’, and no token is configured",
            recovery: Recovery("Name the token.", .chooseToken))
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
            uri: PKCS11Keystore.location(of: key), options: tokenOptions, anchors: store)
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
