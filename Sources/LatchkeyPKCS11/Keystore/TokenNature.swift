internal import Latchkey

/// What a token is and can enforce, as far as that can be known.
struct TokenNature: Sendable {
    let root: AssuranceLevel.Root
    /// Whether the token asks for PIN or finger itself.
    let asksItself: Bool
    /// Whether it can have keys that are used without a login.
    let hasOpenKeys: Bool
    /// Whether its `CKA_ID`s name the slots of a PIV card.
    let isPIV: Bool
    /// The fewest and the most bytes that the user's PIN may have; nil where that is not known.
    let pinLength: ClosedRange<Int>?
    /// Likewise for the security officer's.
    let officerPINLength: ClosedRange<Int>?

    init(_ profile: ModuleProfile, information: TokenInformation, options: PKCS11Options) {
        root = Self.root(profile, information)
        asksItself =
            switch options.protectedPath {
            case .asTokenSays: information.flags.contains(.protectedAuthenticationPath)
            case .always: true
            case .never: false
            }
        hasOpenKeys = profile.family != .tpm2
        isPIV = profile.identifiers == .slot || information.manufacturer == Self.openSCsPIV
        // What modules say of PIV cards is not the card's: ykcs11 counts a management key's digits in, OpenSC says 4.
        pinLength = isPIV ? Self.lengthOnPIV : information.pinLength
        officerPINLength = information.pinLength
    }

    /// NIST SP 800-73-4 part 2 section 2.4.3.
    private static let lengthOnPIV = 6...8

    /// What OpenSC writes as the manufacturer of a PIV card's token.
    private static let openSCsPIV = "piv_II"

    private static func root(_ profile: ModuleProfile, _ information: TokenInformation) -> AssuranceLevel.Root {
        switch information.simulator(behind: profile) {
        case nil: .token
        case "swtpm": .swtpm
        default: .softhsm
        }
    }

    /// The policies that the token can enforce.
    ///
    /// tpm2-pkcs11 keeps the authorization of every key encrypted under the PIN: it has no key that needs nobody.
    ///
    /// A token that asks by itself takes a finger or a PIN, and PKCS#11 has no word for which: it is `.userPresence`, a
    /// finger *or* the PIN, and neither `.pin` nor `.biometryAny`, which promise one of them. Where the PIN is typed
    /// here there is no finger: it is `.pin`.
    var requirements: Set<AccessPolicy.Requirement> {
        let guarded: AccessPolicy.Requirement = asksItself ? .userPresence : .pin
        return hasOpenKeys ? [.none, guarded] : [guarded]
    }

    /// What the token demands of who uses a key.
    func presence(_ requirement: AccessPolicy.Requirement, needsTouch: Bool) -> AssuranceLevel.EnforcedPresence {
        switch requirement {
        case .none: needsTouch ? .touch : .none
        case .pin: needsTouch ? .touchAndPIN : .pin
        case .userPresence, .biometryAny, .biometryCurrentSet: .fingerOrPIN
        }
    }

    /// Refuses what this token can't enforce, before anybody is asked anything.
    func check(_ policy: AccessPolicy, _ operation: String) throws(KeystoreError) {
        guard requirements.contains(policy.requirement) else {
            throw .unsupported(
                operation, "the token can't enforce the policy ‘\(policy)’",
                recovery: asksItself
                    ? "The token asks for PIN or finger itself: use the policy `user-presence`."
                    : "The token knows nothing but a PIN: use the policy `pin`.")
        }
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                operation, "a token can't count the wrong PINs of one key",
                recovery: "Leave the limit out; the token's own limit of wrong PINs holds.")
        }
    }
}
