internal import CPKCS11

/// A token's description of itself: `C_GetTokenInfo` (PKCS#11 2.40 section 5.5).
package struct TokenInformation: Hashable, Sendable {
    /// Identifies the token. The following texts are only for the user.
    let texts: TokenTexts
    package var label: String { texts.label.text }
    package var manufacturer: String { texts.manufacturer.text }
    package var model: String { texts.model.text }
    package var serial: String { texts.serial.text }
    package private(set) var flags: Flags
    /// The length of a PIN in bytes; nil if the token reports no valid range.
    package let pinLength: ClosedRange<Int>?
    package let hardwareVersion: ModuleInformation.Version
    package let firmwareVersion: ModuleInformation.Version
    /// Whether its slot reports to be hardware (`CKF_HW_SLOT` of `C_GetSlotInfo`).
    package internal(set) var isInHardwareSlot = false

    /// `CKF_…` of a token.
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt

        package init(rawValue: UInt) { self.rawValue = rawValue }

        /// `CKF_WRITE_PROTECTED`: nothing on it can be changed.
        package static let writeProtected = Flags(rawValue: 0x2)
        /// `CKF_LOGIN_REQUIRED`: some functions need a login.
        package static let loginRequired = Flags(rawValue: 0x4)
        /// `CKF_USER_PIN_INITIALIZED`: the user's PIN is set.
        package static let userPINInitialized = Flags(rawValue: 0x8)
        /// The token itself prompts for the PIN or fingerprint: log in with
        /// `LoginProof.protectedPath`.
        package static let protectedAuthenticationPath = Flags(rawValue: 0x100)
        /// `CKF_TOKEN_INITIALIZED`: it was initialized.
        package static let initialized = Flags(rawValue: 0x400)
        /// `CKF_USER_PIN_COUNT_LOW`: a wrong PIN was given since the last right one.
        package static let userPINCountLow = Flags(rawValue: 0x10000)
        /// `CKF_USER_PIN_FINAL_TRY`: the next wrong PIN locks it.
        package static let userPINFinalTry = Flags(rawValue: 0x20000)
        /// `CKF_USER_PIN_LOCKED`: the user can't log in.
        package static let userPINLocked = Flags(rawValue: 0x40000)
        /// `CKF_USER_PIN_TO_BE_CHANGED`: the PIN is the default one, or expired.
        package static let userPINToBeChanged = Flags(rawValue: 0x80000)
        /// `CKF_SO_PIN_COUNT_LOW`: a wrong SO PIN was given since the last right one.
        package static let securityOfficerPINCountLow = Flags(rawValue: 0x100000)
        /// `CKF_SO_PIN_FINAL_TRY`: the next wrong SO PIN locks it.
        package static let securityOfficerPINFinalTry = Flags(rawValue: 0x200000)
        /// `CKF_SO_PIN_LOCKED`: the security officer can't log in.
        package static let securityOfficerPINLocked = Flags(rawValue: 0x400000)
        /// `CKF_SO_PIN_TO_BE_CHANGED`: the security officer's PIN is the factory PIN, or expired.
        package static let securityOfficerPINToBeChanged = Flags(rawValue: 0x800000)
    }

    /// 1 before the last attempt for the security officer's PIN; nil if the token does not tell.
    var officerAttemptsLeft: Int? { flags.contains(.securityOfficerPINFinalTry) ? 1 : nil }

    /// Whether OpenSC shows a card of another format, such as a PIV or OpenPGP card, as a PKCS#15
    /// card. OpenSC can't initialize such a card or create keys on it.
    var isEmulated: Bool { model == "PKCS#15 emulated" }

    /// The flags for the user, in words, in a fixed order: `login required`, `PIN pad`, `PIN count
    /// low` …
    package var flagWords: [String] {
        // The other flags of an uninitialized token are not valid.
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

extension TokenInformation {
    init(_ info: CK_TOKEN_INFO) {
        texts = TokenTexts(
            label: TokenText(field: info.label),
            manufacturer: TokenText(field: info.manufacturerID),
            model: TokenText(field: info.model), serial: TokenText(field: info.serialNumber))
        flags = Flags(rawValue: info.flags)
        // Modules write 0, 255 and CK_UNAVAILABLE_INFORMATION here; ignore an invalid range.
        let most = 4096
        let length = (Int(clamping: info.ulMinPinLen), Int(clamping: info.ulMaxPinLen))
        pinLength =
            (1...most).contains(length.1) && length.0 <= length.1 ? length.0...length.1 : nil
        hardwareVersion = ModuleInformation.Version(info.hardwareVersion)
        firmwareVersion = ModuleInformation.Version(info.firmwareVersion)
        // SoftHSM2 sets these after a wrong PIN, but never locks.
        if isSoftHSM { flags.subtract([.userPINCountLow, .securityOfficerPINCountLow]) }
    }

    /// The texts in Cryptoki's structure, for p11-kit's URIs.
    var cryptokiInfo: CK_TOKEN_INFO {
        var info = CK_TOKEN_INFO()
        withUnsafeMutableBytes(of: &info.label) { $0.fill(blankPadding: texts.label) }
        withUnsafeMutableBytes(of: &info.manufacturerID) {
            $0.fill(blankPadding: texts.manufacturer)
        }
        withUnsafeMutableBytes(of: &info.model) { $0.fill(blankPadding: texts.model) }
        withUnsafeMutableBytes(of: &info.serialNumber) { $0.fill(blankPadding: texts.serial) }
        return info
    }
}

extension UnsafeMutableRawBufferPointer {
    fileprivate func fill(blankPadding text: TokenText) {
        initializeMemory(as: UInt8.self, repeating: 0x20)
        copyBytes(from: text.printed.prefix(count))
    }
}

extension TokenInformation {
    /// Whether OpenSC shows an OpenPGP card.
    var isOpenPGP: Bool { manufacturer == "OpenPGP project" }

    /// The program that unblocks the PIN of an OpenPGP card.
    static let openPGPProgram = "gpg --card-edit"

    /// Whether it is a token of NSS softoken, also behind another module.
    var isNSS: Bool { manufacturer == "Mozilla Foundation" && model.hasPrefix("NSS") }
}

extension Caller {
    /// Calls a function that a module may lack: then the answer is `CKR_FUNCTION_NOT_SUPPORTED`.
    func optionalAnswer(
        _ function: String, _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) -> ReturnValue {
        try answer(function) { body($0) ?? ReturnValue.functionNotSupported.rawValue }
    }

    /// More slots than any machine has.
    private static let maximumSlots = 1024

    /// The slots with a token, or all slots. Some modules notice that a token was inserted or
    /// removed only in this call.
    func slots(withToken: Bool) throws(CryptokiError) -> [UInt] {
        let function = "C_GetSlotList"
        // Modules look for cards in this call, as in C_Initialize.
        let search = module.profile.hasCards ? CardSearch.begun() : nil
        defer { withExtendedLifetime(search) {} }
        // The number may change between the two calls.
        for _ in 0..<4 {
            var count: CK_ULONG = 0
            try callAsFunction(function) {
                $0.pointee.C_GetSlotList?(withToken ? 1 : 0, nil, &count)
            }
            guard count <= CK_ULONG(Self.maximumSlots) else {
                throw .malformed(function, "the module has \(count) slots")
            }
            guard count > 0 else { return [] }
            var slots = [CK_SLOT_ID](repeating: 0, count: Int(count))
            var filled = count
            let value = try answer(function) {
                $0.pointee.C_GetSlotList?(withToken ? 1 : 0, &slots, &filled)
            }
            switch value {
            case .ok:
                guard filled <= count else {
                    throw .malformed(function, "more slots than the module reported")
                }
                return slots.prefix(Int(filled)).map { UInt($0) }
            case .bufferTooSmall: continue
            default: throw CryptokiError(value, from: function)
            }
        }
        throw .malformed(function, "the number of slots keeps changing")
    }

    /// The description of a slot: for a smart card the first 64 bytes of its reader's name in
    /// PC/SC. Empty if the module does not report it.
    func slotDescription(_ slot: UInt) throws(CryptokiError) -> String {
        String(blankPadded: try slotInfo(slot).slotDescription)
    }

    func tokenInformation(slot: UInt) throws(CryptokiError) -> TokenInformation {
        var info = CK_TOKEN_INFO()
        try callAsFunction("C_GetTokenInfo") { $0.pointee.C_GetTokenInfo?(slot, &info) }
        var information = TokenInformation(info)
        information.isInHardwareSlot = try slotInfo(slot).flags & CK_FLAGS(CKF_HW_SLOT) != 0
        return information
    }

    /// - Returns: Zeros if the module answers an error: a slot without information counts as
    ///   software.
    private func slotInfo(_ slot: UInt) throws(CryptokiError) -> CK_SLOT_INFO {
        var info = CK_SLOT_INFO()
        let value = try optionalAnswer("C_GetSlotInfo") { $0.pointee.C_GetSlotInfo?(slot, &info) }
        return value == .ok ? info : CK_SLOT_INFO()
    }

    /// Erases the token in a slot (`C_InitToken`) after closing all sessions of this process with
    /// it.
    ///
    /// - Parameter label: 1 to 32 bytes, padded with blanks for Cryptoki.
    func initializeToken(slot: UInt, label: String, securityOfficer proof: LoginProof)
        throws(CryptokiError)
    {
        _ = try answer("C_CloseAllSessions") { $0.pointee.C_CloseAllSessions?(slot) }
        var padded = Array((label + String(repeating: " ", count: 32)).utf8.prefix(32))
        try proof.withBytes { bytes, count throws(CryptokiError) in
            try callAsFunction("C_InitToken", .person) {
                $0.pointee.C_InitToken?(slot, bytes, count, &padded)
            }
        }
    }
}
