/// What is known of a family of modules beyond the standard: found out by experiment on Debian 12
/// (`reference/pkcs11.md`), chosen by what a module says of itself.
package struct ModuleProfile: Hashable, Sendable {
    /// The family.
    package enum Family: String, Hashable, Sendable {
        /// SoftHSM2.
        case softhsm
        /// Yubico's, for the PIV application of its tokens.
        case ykcs11
        /// OpenSC's, for many cards.
        case opensc
        /// tpm2-pkcs11's, for keys in a TPM.
        case tpm2
        /// Any other.
        case generic
    }

    /// Who may generate keys.
    package enum Generator: Hashable, Sendable {
        /// Whoever knows the PIN.
        case user
        /// The token's security officer.
        case securityOfficer
        /// Nobody, through this module: adopt a key that another program made.
        case nobody
    }

    /// What a `CKA_ID` may be.
    package enum IdentifierRule: Hashable, Sendable {
        /// Any bytes: 16 random ones are taken.
        case random
        /// One byte that names a slot of the card: 1 = 9a, 2 = 9c, 3 = 9d, 4 = 9e, 5…24 = 82…95.
        case slot
    }

    /// What `C_DestroyObject` does to a key.
    package enum Deletion: Hashable, Sendable {
        /// The key is gone.
        case deletes
        /// It says yes, and the key is back in the next session.
        case pretends
        /// It says no.
        case refuses
    }

    /// How a blocked PIN is unblocked.
    package enum Unblocking: Hashable, Sendable {
        /// `C_Login(CKU_SO)` and `C_InitPIN`.
        case securityOfficer
        /// `C_SetPIN("puk:…", "pin:…")`.
        case prefixedSetPIN
        /// Another program must: for a person, named.
        case program(String)
    }

    /// What ends a login on the token, and not only in the module.
    package enum Locking: Hashable, Sendable {
        /// `C_Logout`.
        case logout
        /// A reset of the card through PC/SC, after `C_Logout`.
        case reset
        /// The same after `C_Finalize`, without which the module shows the card the PIN again that it keeps.
        case finalization
    }

    /// Which family it is.
    package let family: Family
    /// Whether a private key's template may hold `CKA_EXTRACTABLE`.
    package let takesExtractable: Bool
    /// Whether a private key's template may hold `CKA_ALWAYS_AUTHENTICATE`.
    package let takesAlwaysAuthenticate: Bool
    /// Whether `CKA_SENSITIVE`, `CKA_NEVER_EXTRACTABLE` and `CKA_LOCAL` of a generated key are true where they should be.
    package let reportsProtection: Bool
    /// Who may generate keys.
    package let generator: Generator
    /// What a `CKA_ID` may be.
    package let identifiers: IdentifierRule
    /// What `C_DestroyObject` does to a key.
    package let deletion: Deletion
    /// How a blocked PIN is unblocked.
    package let unblocking: Unblocking
    /// Whether a key that needs no login signs without one.
    package let signsWithoutLogin: Bool
    /// How far, where private halves are hidden until somebody logs in, the handle of one is below its public half's.
    let hiddenHalfDistance: UInt?
    /// Whether what it says of readers, tokens and a locked PIN may be of the past until it is initialised anew.
    let clingsToThePast: Bool
    /// From which version of the module on it takes a management key that is not 3DES; nil where it does, or has none.
    let wantsVersionForAES: String?
    /// What ends a login on the token.
    let locking: Locking
    /// How many sessions there are in all; nil where there is no known limit.
    package let sessionLimit: Int?
    /// Whether `C_WaitForSlotEvent` works.
    package let hasSlotEvents: Bool
    /// The PIN that starts a finger check where the token doesn't say `CKF_PROTECTED_AUTHENTICATION_PATH`.
    package let fingerprintPIN: String?
    /// Whether a module of this family and version runs in a process of its own unless told otherwise.
    package let isolatesByDefault: Bool

    /// The profile of a module that says this of itself. What a file is called doesn't count.
    package init(for information: ModuleInformation) {
        let text = "\(information.manufacturer) \(information.description)".lowercased()
        self =
            if text.contains("softhsm") {
                .softhsm
            } else if text.contains("opensc") {
                .opensc(information.version)
            } else if text.contains("yubico") {
                .ykcs11(information.version)
            } else if text.contains("tpm2") {
                .tpm2
            } else {
                .generic
            }
    }

    private init(
        family: Family, takesExtractable: Bool = true, takesAlwaysAuthenticate: Bool = true,
        reportsProtection: Bool = true, generator: Generator = .user, identifiers: IdentifierRule = .random,
        deletion: Deletion = .deletes, unblocking: Unblocking = .securityOfficer, signsWithoutLogin: Bool = true,
        hiddenHalfDistance: UInt? = nil, clingsToThePast: Bool = false, wantsVersionForAES: String? = nil,
        locking: Locking = .reset, sessionLimit: Int? = nil,
        hasSlotEvents: Bool = false, fingerprintPIN: String? = nil, isolatesByDefault: Bool = false
    ) {
        self.family = family
        self.takesExtractable = takesExtractable
        self.takesAlwaysAuthenticate = takesAlwaysAuthenticate
        self.reportsProtection = reportsProtection
        self.generator = generator
        self.identifiers = identifiers
        self.deletion = deletion
        self.unblocking = unblocking
        self.signsWithoutLogin = signsWithoutLogin
        self.hiddenHalfDistance = hiddenHalfDistance
        self.clingsToThePast = clingsToThePast
        self.wantsVersionForAES = wantsVersionForAES
        self.locking = locking
        self.sessionLimit = sessionLimit
        self.hasSlotEvents = hasSlotEvents
        self.fingerprintPIN = fingerprintPIN
        self.isolatesByDefault = isolatesByDefault
    }

    /// Anything else: what the standard says is believed, and each refusal is shown. Its token may be a card: one whose
    /// slot has the name of a PC/SC reader is reset after use.
    static let generic = ModuleProfile(family: .generic)

    static let softhsm = ModuleProfile(family: .softhsm, locking: .logout)

    /// tpm2-pkcs11's. Its keys go only with a login.
    static let tpm2 = ModuleProfile(family: .tpm2, deletion: .refuses, locking: .logout)

    /// Yubico's. It hides private halves until somebody logs in, and then signs with none; but it agrees on keys with
    /// what the card itself needs no PIN for. Its handles are places in one list (`ykcs11/obj_types.h`): 25 slots'
    /// private halves, then their public ones. AES management keys came in 2.3.0. The finger of a YubiKey Bio is asked
    /// for by a literal PIN since 2.7.2 (yubico-piv-tool, change 547).
    static func ykcs11(_ version: ModuleInformation.Version) -> ModuleProfile {
        ModuleProfile(
            family: .ykcs11, takesExtractable: false, takesAlwaysAuthenticate: false,
            generator: .securityOfficer, identifiers: .slot, deletion: .pretends, unblocking: .prefixedSetPIN,
            signsWithoutLogin: false, hiddenHalfDistance: knownHandles.contains(version) ? 25 : nil,
            clingsToThePast: true,
            wantsVersionForAES: version < ModuleInformation.Version(major: 2, minor: 30) ? "2.3.0" : nil,
            locking: .finalization, sessionLimit: 16,
            fingerprintPIN: version >= ModuleInformation.Version(major: 2, minor: 72) ? "VERIFY_BIO" : nil)
    }

    /// The versions of ykcs11 whose list of handles was read: 2.2.0 to 2.7.2.
    private static let knownHandles =
        ModuleInformation.Version(major: 2, minor: 20)...ModuleInformation.Version(major: 2, minor: 72)

    /// OpenSC's. Before 0.24 a card that is pulled during a call can stop the process for ever (change d449feeda).
    static func opensc(_ version: ModuleInformation.Version) -> ModuleProfile {
        ModuleProfile(
            family: .opensc, reportsProtection: version >= ModuleInformation.Version(major: 0, minor: 25),
            deletion: .refuses, unblocking: .program("pkcs15-tool --unblock-pin"), hasSlotEvents: true,
            isolatesByDefault: version < ModuleInformation.Version(major: 0, minor: 24))
    }
}
