extension PIVApplet {
    /// The key references of the PIN and the PUK (SP 800-73-4 Part 1 table 4a).
    static let pinReference: UInt8 = 0x80
    static let pukReference: UInt8 = 0x81

    /// VERIFY (SP 800-73-4 Part 2 section 3.2.1). With P1 FF it logs out; without data it reads the
    /// state.
    mutating func verify(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> CommandOutcome
    {
        guard p2 == Self.pinReference else { throw .referenceNotFound }
        switch (p1, data.isEmpty) {
        case (0xFF, true):
            forgetPIN()
        case (0x00, true):
            guard session.isPINVerified else { throw pin.status }
        case (0x00, false):
            do throws(StatusWord) {
                try pin.verify(data[...])
            } catch {
                forgetPIN()
                throw error
            }
            session.isPINVerified = true
            session.isPINFresh = true
        default: throw .incorrectParameters
        }
        return .done
    }

    /// CHANGE REFERENCE DATA (SP 800-73-4 Part 2 section 3.2.2): the old value and the new one, 8
    /// bytes each.
    mutating func changeReferenceData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard p1 == 0 else { throw .incorrectParameters }
        let (old, new) = try Self.halves(data)
        switch p2 {
        case Self.pinReference: try pin.change(from: old, to: new)
        case Self.pukReference: try puk.change(from: old, to: new)
        default: throw .referenceNotFound
        }
        return .done
    }

    /// RESET RETRY COUNTER (SP 800-73-4 Part 2 section 3.2.3): the PUK and a new PIN, 8 bytes each.
    mutating func resetRetryCounter(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        guard p1 == 0, p2 == Self.pinReference else { throw .incorrectParameters }
        let (code, new) = try Self.halves(data)
        try puk.verify(code)
        try pin.reset(to: new)
        return .done
    }

    /// Yubico's SET PIN RETRIES: P1 for the PIN, P2 for the PUK. Resets both to their factory
    /// values.
    mutating func setRetries(p1: UInt8, p2: UInt8) throws(StatusWord) -> CommandOutcome {
        guard session.isAdministrator, session.isPINVerified else {
            throw .securityStatusNotSatisfied
        }
        guard p1 > 0, p2 > 0 else { throw .incorrectParameters }
        pin = CountedSecret(CardProfile.defaultPIN, limit: Int(p1))
        puk = CountedSecret(CardProfile.defaultPUK, limit: Int(p2))
        return .done
    }

    private mutating func forgetPIN() {
        session.isPINVerified = false
        session.isPINFresh = false
    }

    private static func halves(_ data: [UInt8]) throws(StatusWord) -> (
        ArraySlice<UInt8>, ArraySlice<UInt8>
    ) {
        let length = CountedSecret.Format.padded.longest
        guard data.count == 2 * length else { throw .incorrectData }
        return (data.prefix(length), data.suffix(length))
    }
}
