internal import CPKCS11

/// Makes Cryptoki calls on one thread. All calls of a module's functions go through it.
///
/// Each call has a name, a deadline and a check of its answer. A module that hangs is never called
/// again.
struct Caller {
    /// How long a call may take.
    enum Kind {
        /// It moves data.
        case data
        /// The token checks a PIN, and does not wait for the user.
        case proof
        /// The token may wait for the user.
        case person
    }

    let module: Module
    let functions: FunctionList
    let watch: CallWatch
    let deadlines: TokenOptions.Deadlines
    /// The epoch of the module in which the calls are valid: in the next one, a session's handle
    /// may be another token's session. nil for calls that need no session.
    var epoch: Int?
    /// The reader of the token; nil if the module's tokens are not smart cards, and for calls that
    /// need no session.
    var reader: String?

    /// Calls a function and returns its answer.
    ///
    /// - Parameter body: Makes the call; returns nil if the module does not have the function.
    /// - Returns: `CKR_SESSION_HANDLE_INVALID`, without a call, if the module was restarted since
    ///   ``epoch``.
    /// - Throws: `unresponsive`, and `returned(.functionNotSupported)` for a missing function.
    func answer(
        _ function: String, _ kind: Kind = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) -> ReturnValue {
        // The deadline starts after the wait for another thread that restarts the module.
        guard try module.beginCall(waitingAtMost: deadlines.restart, in: epoch) else {
            return .sessionHandleInvalid
        }
        defer { module.endCall() }
        let limit =
            switch kind {
            case .data: deadlines.data
            case .proof: deadlines.proof
            case .person: deadlines.person
            }
        let removal =
            kind == .person
            ? reader.map { RemovalCheck(reader: $0, interval: deadlines.data) } : nil
        guard
            let value = watch.during(
                function, within: limit, endedBy: removal, { body(functions.pointer) })
        else {
            throw CryptokiError(
                .returned(.functionNotSupported), function: function,
                reason: "the module has no such function")
        }
        return ReturnValue(rawValue: value)
    }

    /// Calls a function that must answer `CKR_OK`.
    func callAsFunction(
        _ function: String, _ kind: Kind = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) {
        let value = try answer(function, kind, body)
        guard value == .ok else { throw CryptokiError(value, from: function) }
    }
}

/// A module's functions, as p11-kit manages them.
///
/// Safe to share: the list is written once before its first use, and never freed. ``Caller`` and
/// ``Module`` decide which thread may call a function.
struct FunctionList: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<CK_FUNCTION_LIST>
    /// The text for `C_Initialize` (``ConfiguredModules/Entry/parameters``).
    var parameters: String?

    /// `C_Initialize`.
    func initialize(_ flags: CK_FLAGS, _ watch: CallWatch, within limit: Duration) -> ReturnValue {
        var arguments = latchkey_initialize_arguments()
        arguments.standard.flags = flags
        let value = watch.during("C_Initialize", within: limit) { () -> CK_RV? in
            guard var text = parameters.map({ Array($0.utf8CString) }) else {
                return pointer.pointee.C_Initialize?(&arguments)
            }
            return text.withUnsafeMutableBytes { bytes in
                arguments.standard.pReserved = bytes.baseAddress
                return pointer.pointee.C_Initialize?(&arguments)
            }
        }
        return value.map { ReturnValue(rawValue: $0) } ?? .functionNotSupported
    }

    /// `C_Finalize`. Its answer does not matter: the module is initialized again, or not used any
    /// more.
    func finalize(_ watch: CallWatch, within limit: Duration) {
        _ = watch.during("C_Finalize", within: limit) { pointer.pointee.C_Finalize?(nil) }
    }
}

extension Caller {
    /// More slots than any machine has.
    private static let maximumSlots = 1024

    /// The slots with a token, or all slots. Some modules notice that a token was inserted or
    /// removed only in this call.
    func slots(withToken: Bool) throws(CryptokiError) -> [UInt] {
        let function = "C_GetSlotList"
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
        let value = try answer("C_GetSlotInfo") { $0.pointee.C_GetSlotInfo?(slot, &info) }
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
