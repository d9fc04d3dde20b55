import LatchkeyRelyingParty

/// The operator's trust anchors, read at the start of the server.
struct AnchorFiles: Sendable {
    let tpm: AttestationAnchors.Group
    let piv: AttestationAnchors.Group
    let simulated: AttestationAnchors.Group
    /// One line for each file or certificate that is not used, and one with the number of those that
    /// are used, if any is not.
    let warnings: [String]

    /// - Throws: ``ConfigurationError`` if a directory cannot be read, or no root in it can be used.
    init(_ configuration: AttestationConfiguration) throws {
        var warnings: [String] = []
        tpm = try Self.group(configuration.tpmAnchors, "tpm_anchors", &warnings)
        piv = try Self.group(configuration.pivAnchors, "piv_anchors", &warnings)
        simulated = try Self.group(configuration.simulatedAnchors, "simulated_anchors", &warnings)
        self.warnings = warnings
    }

    private static func group(
        _ directories: [String], _ member: String, _ warnings: inout [String]
    ) throws -> AttestationAnchors.Group {
        let group = AttestationAnchors.Group(
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
        guard !group.skipped.isEmpty else { return group }
        warnings += group.skipped.map {
            "attestation.\(member): \($0.path) is not used: \($0.reason)"
        }
        warnings.append(
            "attestation.\(member): \(group.skipped.count) not used, \(group.rootCount) roots and "
                + "\(group.intermediateCount) intermediates left")
        return group
    }
}
