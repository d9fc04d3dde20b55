internal import Latchkey
internal import TPM2

/// The public areas of the objects that the keystore creates.
enum KeyTemplates {
    private static let created: ObjectAttributes = [
        .fixedTPM, .fixedParent, .sensitiveDataOrigin, .userWithAuth,
    ]

    /// The TCG's ECC storage root key (TCG EK Credential Profile annex B.3.4, template L-2 for
    /// storage; TPM v2.0 Provisioning Guidance section 7.5.1), with an empty unique field as in
    /// Linux.
    ///
    /// `noDA`: otherwise no key could be loaded during a lockout.
    static let storageRoot = PublicArea(
        attributes: created.union([.noDA, .restricted, .decrypt]),
        detail: .ecc(ECCParameters(symmetric: .aes128CFB), ECCPoint(x: [], y: [])))

    /// A signing key on P-256, for ECDSA with SHA-256 only or, in the form `webAuthn`, for any
    /// scheme.
    static func signingKey(
        _ policy: AccessPolicy, _ protection: PresenceProtection, _ form: KeyForm = .fixedScheme
    ) throws(TPMError) -> PublicArea {
        try ecdsaKey(form).guarded(by: policy, protection)
    }

    private static func ecdsaKey(_ form: KeyForm) -> PublicArea {
        PublicArea(
            attributes: created.union(.sign),
            detail: .ecc(
                ECCParameters(scheme: form == .webAuthn ? .null : .ecdsaSHA256),
                ECCPoint(x: [], y: [])))
    }

    /// A sealed secret.
    static func sealedData(_ policy: AccessPolicy, _ protection: PresenceProtection)
        throws(TPMError) -> PublicArea
    {
        try PublicArea(
            attributes: created.subtracting(.sensitiveDataOrigin),
            detail: .keyedHash(.null, unique: [])
        )
        .guarded(by: policy, protection)
    }

    /// A key for HMAC-SHA-256 only, which the TPM generates.
    static func macKey(_ policy: AccessPolicy, _ protection: PresenceProtection) throws(TPMError)
        -> PublicArea
    {
        try PublicArea(
            attributes: created.union(.sign), detail: .keyedHash(.hmacSHA256, unique: [])
        )
        .guarded(by: policy, protection)
    }

    /// A secret that the presence broker opens at a sign-in. Its authValue is empty, and authorizes
    /// nothing: both roles need the policy.
    static func signInSecret(_ policy: [UInt8]) -> PublicArea {
        PublicArea(
            attributes: [.fixedTPM, .fixedParent, .adminWithPolicy, .noDA], authPolicy: policy,
            detail: .keyedHash(.null, unique: []))
    }

    /// The presence broker's key, with an authValue of 32 random bytes, which cannot be guessed.
    static let approvalKey = PublicArea(
        attributes: created.union([.sign, .noDA]), detail: ecdsaKey(.fixedScheme).detail)

    /// A key that signs only statements of the TPM.
    static let attestationKey = PublicArea(
        attributes: created.union([.sign, .restricted, .noDA]),
        detail: ecdsaKey(.fixedScheme).detail)
}

extension PublicArea {
    /// Returns the same public area with a policy.
    ///
    /// The TPM counts wrong PINs of an object with its own PIN. Other proofs cannot be guessed (an
    /// approval is a signature), or have their own count (the user's PIN). Those objects have
    /// `noDA`, because otherwise the TPM would count an unclean power-off after a use as a failure
    /// (TPM 2.0 Part 1 section 17.8).
    ///
    /// Without userWithAuth, only the policy authorizes a use. adminWithPolicy stays clear: the
    /// authValue, which is empty or stored with the object, authorizes the ADMIN role, so that an
    /// attestation key can certify the object without a branch in its policy.
    fileprivate func guarded(
        by policy: AccessPolicy, _ protection: PresenceProtection
    ) throws(TPMError) -> PublicArea {
        var guarded = self
        guarded.authPolicy = try protection.digest(under: policy)
        if protection.pinSalt == nil { guarded.attributes.insert(.noDA) }
        if protection.isPolicyOnly { guarded.attributes.remove(.userWithAuth) }
        return guarded
    }

    /// The form of a signing key: without a scheme, `webAuthn`.
    var keyForm: KeyForm {
        if case .ecc(let parameters, _) = detail, parameters.scheme == .null {
            .webAuthn
        } else {
            .fixedScheme
        }
    }

    /// Whether an object was created from `template`: only the unique field differs.
    func isMade(from template: PublicArea) -> Bool {
        guard nameAlgorithm == template.nameAlgorithm, attributes == template.attributes,
            authPolicy == template.authPolicy
        else { return false }
        switch (detail, template.detail) {
        case (.ecc(let own, let point), .ecc(let wanted, _)): return own == wanted && !point.isUnset
        case (.keyedHash(let own, let unique), .keyedHash(let wanted, _)):
            return own == wanted && !unique.isEmpty
        default: return false
        }
    }
}
