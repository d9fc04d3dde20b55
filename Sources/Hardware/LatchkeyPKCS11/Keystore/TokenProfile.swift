internal import Latchkey

/// The kind of a token and the policies that it can enforce.
struct TokenProfile: Sendable {
    let root: AssuranceLevel.Root
    /// Whether the token itself prompts for a PIN or fingerprint.
    let verifiesUserItself: Bool
    /// Whether it can have keys that need no login.
    let hasOpenKeys: Bool
    /// Whether its `CKA_ID`s name the slots of a PIV card.
    let isPIV: Bool
    /// Whether it is an OpenPGP card.
    let isOpenPGP: Bool
    /// The counter of wrong PINs of a card in a reader of this machine.
    let pinCounter: PINCounter?
    /// The length of the user's PIN in bytes; nil if it is not known.
    let pinLength: ClosedRange<Int>?
    /// The length of the security officer's PIN in bytes; nil if it is not known.
    let officerPINLength: ClosedRange<Int>?

    init(_ profile: ModuleProfile, information: TokenInformation, options: PKCS11Options) {
        root =
            switch information.simulator(behind: profile) {
            case nil: .token
            case "swtpm": .swtpm
            default: .softhsm
            }
        verifiesUserItself =
            switch options.protectedPath {
            case .asTokenSays: information.flags.contains(.protectedAuthenticationPath)
            case .always: true
            case .never: false
            }
        hasOpenKeys = profile.family != .tpm2
        // The manufacturers are those that OpenSC reports for the tokens of a PIV card and of an
        // OpenPGP card.
        isPIV = profile.usesSlotIDs || information.manufacturer == "piv_II"
        isOpenPGP = profile.family == .opensc && information.isOpenPGP
        // Another module's slot may have the name of a reader of this machine without using it.
        let usesReaders = profile.family == .ykcs11 || profile.family == .opensc
        pinCounter = !usesReaders ? nil : isPIV ? .piv : isOpenPGP ? .openPGP : nil
        // Modules report wrong lengths for PIV cards: ykcs11 includes the management key's digits,
        // OpenSC reports 4. The right one is in NIST SP 800-73-4 part 2 section 2.4.3.
        pinLength = isPIV ? 6...8 : information.pinLength
        officerPINLength = information.pinLength
    }

    /// The policies that the token can enforce.
    ///
    /// tpm2-pkcs11 encrypts the authorization of every key under the PIN, so that all of its keys
    /// require it.
    ///
    /// A token that verifies the user itself accepts a fingerprint or a PIN, and PKCS#11 does not
    /// report which: this is `.userPresence`, and neither `.pin` nor `.biometryAny`. If the user
    /// types the PIN at the computer, it is `.pin`.
    var requirements: Set<AccessPolicy.Requirement> {
        let guarded: AccessPolicy.Requirement = verifiesUserItself ? .userPresence : .pin
        return hasOpenKeys ? [.none, guarded] : [guarded]
    }

    /// The policy of a key on this token, and the assurance that follows from it.
    ///
    /// On a PIV card, the key's own policy decides whether the PIN is required, and only an
    /// attestation proves it. A new key has the default policy of its slot (NIST SP 800-73-4 part 1
    /// table 4b): the PIN, except in 9e.
    ///
    /// - Parameter isNew: Whether Latchkey generated the key.
    func terms(_ policy: AccessPolicy, _ attestation: PIVAttestation? = nil, isNew: Bool)
        -> KeyTerms
    {
        let needsTouch = attestation?.touch == .always
        let provesPIN = !isPIV || isNew || attestation?.pin != nil
        let presence: AssuranceLevel.EnforcedPresence =
            switch policy.requirement {
            case .none: needsTouch ? .touch : .none
            case .pin where !provesPIN, .userPresence where !provesPIN,
                .biometryAny where !provesPIN,
                .biometryCurrentSet where !provesPIN:
                .unknown
            case .pin: needsTouch ? .touchAndPIN : .pin
            case .userPresence, .biometryAny, .biometryCurrentSet: .fingerOrPIN
            }
        return KeyTerms(policy: policy, assurance: AssuranceLevel(root: root, presence: presence))
    }

    /// Refuses a policy that this token can't enforce, before any prompt.
    func check(_ policy: AccessPolicy) throws(KeystoreError) {
        guard requirements.contains(policy.requirement) else {
            throw .unsupported(
                "the token can't enforce the policy ‘\(policy)’",
                recovery: verifiesUserItself
                    ? "The token itself prompts for a PIN or fingerprint: use the policy `user-presence`."
                    : "The token supports only a PIN: use the policy `pin`.")
        }
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                "a token can't limit the wrong PINs of a single key",
                recovery: "Omit the limit; the token's own limit applies.")
        }
    }
}
