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
    static func signingKey(_ policy: AccessPolicy, _ protection: PresenceProtection?) throws(TPMError) -> PublicArea {
        try ecdsaKey.guarded(by: policy, protection)
    }

    /// The same under an authValue of 32 random bytes that a ``RevocableSecret`` keeps: nothing that could be guessed.
    static let revocableKey = PublicArea(attributes: ecdsaKey.attributes.union(.noDA), detail: ecdsaKey.detail)

    private static let ecdsaKey = PublicArea(
        attributes: born.union(.sign), detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))

    /// Sealed data.
    static func sealedData(_ policy: AccessPolicy, _ protection: PresenceProtection?) throws(TPMError) -> PublicArea {
        try PublicArea(attributes: born.subtracting(.sensitiveDataOrigin), detail: .keyedHash(.null, unique: []))
            .guarded(by: policy, protection)
    }

    /// The presence broker's key, under a random authValue of 32 bytes: nothing that could be guessed.
    static let approvalKey = PublicArea(
        attributes: born.union([.sign, .noDA]),
        detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))

    /// A key that signs what the TPM itself says, and nothing from outside.
    static let attestationKey = PublicArea(
        attributes: born.union([.sign, .restricted, .noDA]),
        detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))
}

extension PublicArea {
    /// The same under a policy.
    ///
    /// A PIN of the object's own can be guessed, so the TPM counts wrong ones. Everything else can't: an approval is a
    /// signature, a user's own PIN counts for itself. There is nothing to count then, and an unclean power-off after a
    /// use would be counted as a guess (TPM 2.0 Part 1 section 17.8).
    fileprivate func guarded(
        by policy: AccessPolicy, _ protection: PresenceProtection?
    ) throws(TPMError) -> PublicArea {
        var guarded = self
        guarded.authPolicy = try protection?.digest(under: policy) ?? []
        if !policy.hasOwnPIN(protection) { guarded.attributes.insert(.noDA) }
        if policy.hasPolicyOnly(protection) {
            guarded.attributes.remove(.userWithAuth)
            guarded.attributes.insert(.adminWithPolicy)
        }
        return guarded
    }

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

extension AccessPolicy {
    /// Whether the object has a PIN of its own, as its authValue.
    func hasOwnPIN(_ protection: PresenceProtection?) -> Bool {
        hasPIN && protection?.userPIN == nil
    }

    /// Whether nothing but the object's policy authorizes its use.
    func hasPolicyOnly(_ protection: PresenceProtection?) -> Bool {
        requirement != .none && !hasOwnPIN(protection)
    }

    /// Whether a protection has what the policy asks for, and no more.
    func fits(_ protection: PresenceProtection?) -> Bool {
        (protection?.finger != nil) == hasFinger && (protection?.userPIN == nil || hasPIN)
            && (protection == nil || protection?.finger != nil || protection?.userPIN != nil)
            && (reuseSeconds == 0 || hasPolicyOnly(protection))
    }
}
