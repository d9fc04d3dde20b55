import LatchkeyRelyingParty

/// The operator's trust anchors, read at the start of the server.
struct AnchorFiles: Sendable {
    let tpm: AttestationAnchors.Group
    let piv: AttestationAnchors.Group
    let simulated: AttestationAnchors.Group

    /// - Throws: ``ConfigurationError`` if a directory or file cannot be read, or a directory
    ///   contains no root.
    init(_ configuration: AttestationConfiguration) throws {
        tpm = try Self.group(configuration.tpmAnchors, "tpm_anchors")
        piv = try Self.group(configuration.pivAnchors, "piv_anchors")
        simulated = try Self.group(configuration.simulatedAnchors, "simulated_anchors")
    }

    private static func group(_ directories: [String], _ member: String) throws
        -> AttestationAnchors.Group
    {
        AttestationAnchors.Group(
            try directories.map { directory in
                do throws(AttestationAnchorError) {
                    let group = try AttestationAnchors.Group(directory: directory)
                    if group.hasRoots { return group }
                } catch {
                    throw ConfigurationError(
                        "attestation.\(member): \(error.path): \(error.reason)",
                        "Correct or remove the file or directory.")
                }
                throw ConfigurationError(
                    "attestation.\(member): no roots in \(directory)/roots",
                    "Copy the manufacturer's root certificates into it.")
            })
    }
}
