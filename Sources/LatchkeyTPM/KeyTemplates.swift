internal import Latchkey
internal import TPM2

/// The public areas of what the keystore makes.
enum KeyTemplates {
    private static let born: ObjectAttributes = [.fixedTPM, .fixedParent, .sensitiveDataOrigin, .userWithAuth]

    /// The TCG's ECC storage root key (TCG EK Credential Profile annex B.3.4 as template L-2 has it for storage; TPM v2.0
    /// Provisioning Guidance section 7.5.1), with a zero-length unique field as Linux makes it.
    ///
    /// `noDA`: a lockout must not shut the parent, or no key could be loaded at all.
    static let storageRoot = PublicArea(
        attributes: born.union([.noDA, .restricted, .decrypt]),
        detail: .ecc(ECCParameters(symmetric: .aes128CFB), ECCPoint(x: [], y: [])))

    /// A key that signs: ECDSA with SHA-256 and nothing else.
    static func signingKey(_ policy: AccessPolicy.Requirement) -> PublicArea {
        PublicArea(
            attributes: born.union(.sign).union(guarding(policy)),
            detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))
    }

    /// Sealed data.
    static func sealedData(_ policy: AccessPolicy.Requirement) -> PublicArea {
        PublicArea(
            attributes: born.subtracting(.sensitiveDataOrigin).union(guarding(policy)),
            detail: .keyedHash(.null, unique: []))
    }

    /// A key that signs what the TPM itself says, and nothing from outside.
    static let attestationKey = PublicArea(
        attributes: born.union([.sign, .restricted, .noDA]),
        detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))

    /// A PIN can be guessed, so the TPM counts wrong ones; where nothing is asked for there is nothing to count, and an
    /// unclean power-off after a use would be counted as a guess (TPM 2.0 Part 1 section 17.8).
    private static func guarding(_ policy: AccessPolicy.Requirement) -> ObjectAttributes {
        policy == .none ? .noDA : []
    }
}

extension PublicArea {
    /// Whether an object was made from `template`: everything is the same but the unique field.
    func isMade(from template: PublicArea) -> Bool {
        guard nameAlgorithm == template.nameAlgorithm, attributes == template.attributes,
            authPolicy == template.authPolicy
        else { return false }
        switch (detail, template.detail) {
        case (.ecc(let own, let point), .ecc(let wanted, _)): return own == wanted && !point.isUnset
        case (.keyedHash(let own, let unique), .keyedHash(let wanted, _)): return own == wanted && !unique.isEmpty
        default: return false
        }
    }
}
