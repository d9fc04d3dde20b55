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

/// A text of Cryptoki's structures as the module wrote it. Two texts are equal if they differ only
/// in the blanks and NULs at their ends, with which modules pad them.
package struct TokenText: Hashable, Sendable {
    /// The bytes without the padding.
    let bytes: [UInt8]
    /// The bytes with NULs at the end, as p11-kit and its programs compare them.
    let printed: [UInt8]

    init(_ field: some Sequence<UInt8>) {
        func prefix(_ bytes: [UInt8], without padding: [UInt8]) -> [UInt8] {
            Array(bytes.prefix((bytes.lastIndex { !padding.contains($0) } ?? -1) + 1))
        }
        printed = prefix(Array(field), without: [0x20])
        bytes = prefix(printed, without: [0x20, 0])
    }

    init<Field>(field: Field) { self = withUnsafeBytes(of: field) { TokenText($0) } }

    /// The text for the user.
    package var text: String { bytes.withUnsafeBytes { String(blankPadded: $0) } }

    package static func == (left: TokenText, right: TokenText) -> Bool { left.bytes == right.bytes }
    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

/// The texts that identify a token (`CK_TOKEN_INFO`).
package struct TokenTexts: Hashable, Sendable {
    let label: TokenText
    let manufacturer: TokenText
    let model: TokenText
    let serial: TokenText

    /// Whether the serial number can identify the token.
    var hasSerial: Bool { serial.bytes.contains { ![UInt8(ascii: "0"), 0x20, 0].contains($0) } }

    /// Whether two tokens differ at most in their labels.
    func isSameDevice(as other: TokenTexts) -> Bool {
        manufacturer == other.manufacturer && model == other.model && serial == other.serial
    }
}

extension String {
    /// Reads a text field of Cryptoki's structures.
    init<Field>(blankPadded field: Field) {
        self = withUnsafeBytes(of: field) { String(blankPadded: $0) }
    }

    /// Reads text of Cryptoki's structures: a fixed number of bytes of UTF-8, padded with blanks
    /// and not terminated. Invalid UTF-8 and control characters become `?`, so that the text never
    /// gets longer.
    init(blankPadded bytes: UnsafeRawBufferPointer) {
        let text = bytes.prefix { $0 != 0 }
        let end = text.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? text.startIndex
        let line = String(oneLine: String(decoding: text[text.startIndex..<end], as: UTF8.self))
        self.init(String.UnicodeScalarView(line.unicodeScalars.map { $0 == "\u{FFFD}" ? "?" : $0 }))
    }
}

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
