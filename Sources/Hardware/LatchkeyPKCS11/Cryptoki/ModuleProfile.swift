internal import CPKCS11
internal import Latchkey

/// The behavior of a family of modules that the standard does not define, found by experiment on
/// Debian 12. The module's own description selects the profile.
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

    /// How a blocked PIN is unblocked.
    enum Unblocking: Hashable, Sendable {
        /// `C_Login(CKU_SO)` and `C_InitPIN`.
        case securityOfficer
        /// `C_SetPIN("puk:…", "pin:…")`.
        case prefixedSetPIN
        /// Only with another program, which is named for the user.
        case program(String)
    }

    /// How a login ends on the token, and not only in the module.
    enum Locking: Hashable, Sendable {
        /// `C_Logout`.
        case logout
        /// A reset of the card through PC/SC, after `C_Logout`.
        case reset
        /// A reset after `C_Finalize`. Without `C_Finalize`, the module would send its cached PIN
        /// to the card again.
        case finalization
    }

    package let family: Family
    /// Whether the module reports `CKA_SENSITIVE`, `CKA_NEVER_EXTRACTABLE` and `CKA_LOCAL` of a
    /// generated key correctly.
    var reportsProtection = true
    /// The role that may generate keys.
    var generator = LoginRole.user
    /// Whether a `CKA_ID` is one byte that names a slot of a PIV card (``PIVSlot/id``). Otherwise
    /// it can be any bytes, and 16 random bytes are used.
    var usesSlotIDs = false
    /// Whether `C_DestroyObject` deletes a key. Otherwise it answers an error, or `CKR_OK` without
    /// an effect.
    var deletesKeys = true
    /// How a blocked PIN is unblocked.
    var unblocking = Unblocking.securityOfficer
    /// Whether a key that needs no login signs without one.
    var signsWithoutLogin = true
    /// The handle of a public half minus the handle of its private half, if the module hides
    /// private halves without a login.
    var hiddenHalfDistance: UInt?
    /// Whether the module's information about readers, tokens and a locked PIN can be stale until
    /// it is initialized again.
    var cachesStaleState = false
    /// Whether a token can fail or disappear for a moment while another process writes to it.
    var failsDuringWrites = false
    /// Whether an answer can mean that the module could not read the token's files while another
    /// process wrote them. SoftHSM2 counts no wrong PINs, so a PIN may be sent again after it.
    func failsToRead(_ value: ReturnValue?) -> Bool {
        failsDuringWrites && (value == .generalError || value == .userPINNotInitialized)
    }
    /// The first version of the module that supports AES management keys; nil if this version
    /// supports them or has no such key.
    var versionWithAESManagementKey: String?
    var locking = Locking.reset
    /// Whether the tokens are smart cards, whose slots have the names of PC/SC readers.
    var hasCards: Bool { family == .ykcs11 || family == .opensc }
    /// The PIN that starts a fingerprint check if the token does not report
    /// `CKF_PROTECTED_AUTHENTICATION_PATH`.
    var fingerprintPIN: String?
    /// Whether a module of this family and version is isolated by default.
    var isolatesByDefault = false
}

extension ModuleProfile {
    /// A version of the module, or of a token that it shows, as its makers write it. Yubico's
    /// module and SoftHSM2 put the patch number into the last digit of `CK_VERSION`'s minor number:
    /// 2.20 is 2.2.0, and firmware 5.43 is 5.4.3.
    package func text(of version: ModuleInformation.Version) -> String {
        switch family {
        case .ykcs11, .softhsm: "\(version.major).\(version.minor / 10).\(version.minor % 10)"
        case .opensc, .tpm2, .generic: version.description
        }
    }

    /// The profile for a module's description. The file name does not matter.
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

    /// Any other module: assumes the standard's behavior and reports each error. Its token may be a
    /// card: one whose slot has the name of a PC/SC reader is reset after use.
    static let generic = ModuleProfile(family: .generic)

    /// SoftHSM2. It skips a token, and answers `CKR_GENERAL_ERROR`, if it reads a file that another
    /// process writes.
    static let softhsm = ModuleProfile(family: .softhsm, failsDuringWrites: true, locking: .logout)

    /// tpm2-pkcs11's. It deletes keys only after a login.
    static let tpm2 = ModuleProfile(family: .tpm2, deletesKeys: false, locking: .logout)

    /// Yubico's. It hides private halves without a login and does not sign then, but supports key
    /// agreement with keys for which the card requires no PIN. Its handles are indexes of one list
    /// (`ykcs11/obj_types.h`): the private halves of 25 slots, then their public halves. It answers
    /// `CKR_OK` to `C_DestroyObject`, but the next session shows the key again. It supports AES
    /// management keys from 2.3.0 on. From 2.7.2 on, a literal PIN starts the fingerprint check of
    /// a YubiKey Bio (yubico-piv-tool, change 547).
    static func ykcs11(_ version: ModuleInformation.Version) -> ModuleProfile {
        ModuleProfile(
            family: .ykcs11, generator: .securityOfficer, usesSlotIDs: true, deletesKeys: false,
            unblocking: .prefixedSetPIN,
            signsWithoutLogin: false, hiddenHalfDistance: knownHandles.contains(version) ? 25 : nil,
            cachesStaleState: true,
            versionWithAESManagementKey: version < .init(major: 2, minor: 30) ? "2.3.0" : nil,
            locking: .finalization,
            fingerprintPIN: version >= .init(major: 2, minor: 72) ? "VERIFY_BIO" : nil)
    }

    /// The versions of ykcs11 whose list of handles is known: 2.2.0 to 2.7.2.
    private static let knownHandles =
        ModuleInformation.Version(
            major: 2, minor: 20)...ModuleInformation.Version(major: 2, minor: 72)

    /// OpenSC's. Before 0.24, removing a card during a call can block the process forever (change
    /// d449feeda).
    static func opensc(_ version: ModuleInformation.Version) -> ModuleProfile {
        ModuleProfile(
            family: .opensc, reportsProtection: version >= .init(major: 0, minor: 25),
            deletesKeys: false, unblocking: .program("pkcs15-tool --unblock-pin"),
            isolatesByDefault: version < .init(major: 0, minor: 24))
    }
}

/// A module's description of itself: `C_GetInfo` (PKCS#11 2.40 section 5.4), without blank padding.
package struct ModuleInformation: Hashable, Sendable {
    /// At most 32 bytes, for example `SoftHSM`.
    package let manufacturer: String
    /// At most 32 bytes, for example `Implementation of PKCS11`.
    package let description: String
    /// The library's version, major and minor.
    package let version: Version
    /// The version of the standard that it implements.
    package let cryptokiVersion: Version

    /// `CK_VERSION`.
    package struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        /// The number before the point.
        package let major: UInt8
        /// The number after the point: 40 in 2.40.
        package let minor: UInt8

        package init(major: UInt8, minor: UInt8) {
            self.major = major
            self.minor = minor
        }

        package var description: String { "\(major).\(minor)" }

        package static func < (left: Version, right: Version) -> Bool {
            (left.major, left.minor) < (right.major, right.minor)
        }
    }
}

extension ModuleInformation {
    init(_ info: CK_INFO) {
        manufacturer = String(blankPadded: info.manufacturerID)
        description = String(blankPadded: info.libraryDescription)
        version = Version(info.libraryVersion)
        cryptokiVersion = Version(info.cryptokiVersion)
    }
}

extension ModuleInformation.Version {
    init(_ version: CK_VERSION) {
        self.init(major: version.major, minor: version.minor)
    }
}
