package import Latchkey
package import LatchkeyPresence
internal import LatchkeyTPM
internal import TPM2TCTI

extension SettingsReader {
    /// The TPM's TCTI configuration: the setting, otherwise the one of tpm2-tools, otherwise the
    /// default.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that is not a device. A
    ///   missing device is not an error here.
    package func tcti(environment: [String: String]) throws(KeystoreError) -> String {
        let tools = environment["TPM2TOOLS_TCTI"].flatMap { $0.isEmpty ? nil : $0 }
        let tcti = try value("tcti") ?? tools ?? TPMKeystore.defaultTCTI
        guard tcti.isEmpty || TCTIConnection.namesFile(tcti) else { return tcti }
        throw KeystoreError(
            operation: "read the TCTI", code: .invalidInput,
            reason: tcti.isEmpty ? "the TCTI is empty" : "‘\(tcti)’ is not a device",
            recovery: "Set a TPM with --tcti, such as device:/dev/tpmrm0.")
    }

    /// The source of PINs; nil if it is not set.
    package func pinSource() throws(KeystoreError) -> PINSource? {
        guard let text = try value("pin-source") else { return nil }
        guard let source = PINSource(text) else {
            throw invalid("pin-source", "‘\(text)’ is not tty, pinentry, fd:N or file:PATH")
        }
        return source
    }

    /// The authority that reads a service's PINs. A descriptor is checked before the service opens
    /// its own files.
    package func pins(environment: [String: String]) throws(KeystoreError) -> any PresenceAuthority
    {
        let source = try pinSource() ?? .standard
        try source.checkDescriptor()
        return try source.authority(environment: environment)
    }
}
