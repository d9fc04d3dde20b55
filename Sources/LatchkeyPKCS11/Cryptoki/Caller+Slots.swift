internal import CPKCS11

extension Caller {
    /// More slots than any machine has.
    private static let mostSlots = 1024

    /// The slots that have a token in them, or all. Also what makes a module look again: some notice a token that came
    /// or went only here.
    func slots(withToken: Bool) throws(CryptokiError) -> [UInt] {
        let function = "C_GetSlotList"
        // The number may change between the two calls.
        for _ in 0..<4 {
            var count: CK_ULONG = 0
            try callAsFunction(function) { $0.pointee.C_GetSlotList?(withToken ? 1 : 0, nil, &count) }
            guard count <= CK_ULONG(Self.mostSlots) else { throw .malformed(function, "it has \(count) slots") }
            guard count > 0 else { return [] }
            var slots = [CK_SLOT_ID](repeating: 0, count: Int(count))
            var filled = count
            let value = try answer(function) { $0.pointee.C_GetSlotList?(withToken ? 1 : 0, &slots, &filled) }
            switch value {
            case .ok:
                guard filled <= count else { throw .malformed(function, "it has more slots than it said") }
                return slots.prefix(Int(filled)).map { UInt($0) }
            case .bufferTooSmall: continue
            default: throw CryptokiError(value, from: function)
            }
        }
        throw .malformed(function, "the number of slots never settles")
    }

    /// What the slot is called (`C_GetSlotInfo`): for a smart card the first 64 bytes of its reader's name in PC/SC. Empty
    /// where the module does not say.
    func slotDescription(_ slot: UInt) throws(CryptokiError) -> String {
        var info = CK_SLOT_INFO()
        let value = try answer("C_GetSlotInfo") { $0.pointee.C_GetSlotInfo?(slot, &info) }
        guard value == .ok else { return "" }
        return withUnsafeBytes(of: info.slotDescription) { String(blankPadded: $0) }
    }

    func tokenInformation(slot: UInt) throws(CryptokiError) -> TokenInformation {
        var info = CK_TOKEN_INFO()
        try callAsFunction("C_GetTokenInfo") { $0.pointee.C_GetTokenInfo?(slot, &info) }
        var information = TokenInformation(info)
        // A slot that can't say what it is, is taken for software.
        var slotInfo = CK_SLOT_INFO()
        let value = try answer("C_GetSlotInfo") { $0.pointee.C_GetSlotInfo?(slot, &slotInfo) }
        information.isInHardwareSlot = value == .ok && slotInfo.flags & CK_FLAGS(CKF_HW_SLOT) != 0
        return information
    }
}
