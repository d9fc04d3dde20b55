/// Records that other hardware protects, for example in a store that was copied from another
/// machine.
extension RecordContainer {
    /// Whether other hardware protects the records, so that this machine cannot open them. Facades
    /// then do not show them. iOS also shows no item of another device. Does not prompt.
    ///
    /// Each call queries the hardware until the hardware has confirmed that it protects the
    /// records. Does not query it while the records are open.
    ///
    /// - Returns: False if the hardware does not answer, and for records that do not depend on the
    ///   hardware.
    package func isForeign() async throws(CommonError) -> Bool {
        try await keyring.isForeign()
    }

    /// The last result of ``isForeign()``, or of an attempt to open the records. False before both.
    package var isKnownForeign: Bool { keyring.isKnownForeign ?? false }
}

extension RecordContainer {
    /// The kind of keystore that seals the container's device key: `tpm` or `pkcs11`; nil if the
    /// container has none yet. Does not use the hardware.
    package func sealingBackend() async throws(CommonError) -> String? {
        try await keyring.stored(ProtectionClass.device.name)?.backend
    }
}
