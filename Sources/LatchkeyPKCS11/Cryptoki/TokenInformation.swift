/// What a token says of itself: `C_GetTokenInfo` (PKCS#11 2.40 section 5.5). Blank padding is removed.
package struct TokenInformation: Hashable, Sendable {
    /// At most 32 bytes.
    package let label: String
    /// At most 32 bytes.
    package let manufacturer: String
    /// At most 16 bytes.
    package let model: String
    /// At most 16 bytes.
    package let serial: String
    /// What it can and wants, and how its PINs stand.
    package let flags: Flags
    /// The fewest and the most bytes that a PIN may have; nil where the token says nothing that makes sense.
    package let pinLength: ClosedRange<Int>?
    /// The version of its hardware.
    package let hardwareVersion: ModuleInformation.Version
    /// The version of its firmware.
    package let firmwareVersion: ModuleInformation.Version
    /// Whether its slot says that it is realised in hardware (`CKF_HW_SLOT` of `C_GetSlotInfo`).
    package internal(set) var isInHardwareSlot = false

    /// `CKF_…` of a token.
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt

        package init(rawValue: UInt) { self.rawValue = rawValue }

        /// `CKF_RNG`: it has a random number generator.
        package static let randomNumberGenerator = Flags(rawValue: 0x1)
        /// `CKF_WRITE_PROTECTED`: nothing on it can be changed.
        package static let writeProtected = Flags(rawValue: 0x2)
        /// `CKF_LOGIN_REQUIRED`: some functions need a login.
        package static let loginRequired = Flags(rawValue: 0x4)
        /// `CKF_USER_PIN_INITIALIZED`: the user's PIN is set.
        package static let userPINInitialized = Flags(rawValue: 0x8)
        /// The token asks for the PIN or the finger itself: log in with `LoginProof.protectedPath`.
        package static let protectedAuthenticationPath = Flags(rawValue: 0x100)
        /// `CKF_TOKEN_INITIALIZED`: it was initialised.
        package static let initialized = Flags(rawValue: 0x400)
        /// `CKF_USER_PIN_COUNT_LOW`: a wrong PIN was given since the last right one.
        package static let userPINCountLow = Flags(rawValue: 0x10000)
        /// `CKF_USER_PIN_FINAL_TRY`: the next wrong PIN locks it.
        package static let userPINFinalTry = Flags(rawValue: 0x20000)
        /// `CKF_USER_PIN_LOCKED`: the user can't log in any more.
        package static let userPINLocked = Flags(rawValue: 0x40000)
        /// `CKF_USER_PIN_TO_BE_CHANGED`: the PIN is a default, or expired.
        package static let userPINToBeChanged = Flags(rawValue: 0x80000)
        /// `CKF_SO_PIN_COUNT_LOW`: a wrong SO PIN was given since the last right one.
        package static let securityOfficerPINCountLow = Flags(rawValue: 0x100000)
        /// `CKF_SO_PIN_FINAL_TRY`: the next wrong SO PIN locks it.
        package static let securityOfficerPINFinalTry = Flags(rawValue: 0x200000)
        /// `CKF_SO_PIN_LOCKED`: the security officer can't log in any more.
        package static let securityOfficerPINLocked = Flags(rawValue: 0x400000)
    }

    /// The flags that matter to a person, in words, in a fixed order: `login required`, `PIN pad`, `PIN count low` …
    package var flagWords: [String] {
        // What else a token says that is not initialized means nothing.
        guard flags.contains(.initialized) else { return ["not initialized"] }
        var words = Self.words.filter { flags.contains($0.flag) }.map(\.word)
        if flags.contains(.loginRequired), !flags.contains(.userPINInitialized) {
            words.append("no user PIN")
        }
        return words
    }

    private static let words: [(flag: Flags, word: String)] = [
        (.loginRequired, "login required"),
        (.protectedAuthenticationPath, "PIN pad"),
        (.writeProtected, "write-protected"),
        (.userPINCountLow, "PIN count low"),
        (.userPINFinalTry, "PIN final try"),
        (.userPINLocked, "PIN locked"),
        (.userPINToBeChanged, "PIN to be changed"),
        (.securityOfficerPINCountLow, "SO PIN count low"),
        (.securityOfficerPINFinalTry, "SO PIN final try"),
        (.securityOfficerPINLocked, "SO PIN locked"),
    ]
}
