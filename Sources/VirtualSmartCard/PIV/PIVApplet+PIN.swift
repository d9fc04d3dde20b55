extension PIVApplet {
    /// The key references of the PIN and the PUK (SP 800-73-4 Part 1 table 4a).
    static let pinReference: UInt8 = 0x80
    static let pukReference: UInt8 = 0x81

    /// VERIFY (SP 800-73-4 Part 2 section 3.2.1). With P1 FF it logs out; without data it reads the state.
    mutating func verify(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> CommandOutcome {
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

    /// CHANGE REFERENCE DATA (SP 800-73-4 Part 2 section 3.2.2): the old value and the new one, 8 bytes each.
    mutating func changeReferenceData(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> CommandOutcome {
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
    mutating func resetRetryCounter(p1: UInt8, p2: UInt8, _ data: [UInt8]) throws(StatusWord) -> CommandOutcome {
        guard p1 == 0, p2 == Self.pinReference else { throw .incorrectParameters }
        let (code, new) = try Self.halves(data)
        try puk.verify(code)
        try pin.reset(to: new)
        return .done
    }

    /// Yubico's SET PIN RETRIES: P1 for the PIN, P2 for the PUK. Resets both to their factory values.
    mutating func setRetries(p1: UInt8, p2: UInt8) throws(StatusWord) -> CommandOutcome {
        guard session.isAdministrator, session.isPINVerified else { throw .securityStatusNotSatisfied }
        guard p1 > 0, p2 > 0 else { throw .incorrectParameters }
        pin = CountedSecret(CardProfile.defaultPIN, limit: Int(p1))
        puk = CountedSecret(CardProfile.defaultPUK, limit: Int(p2))
        return .done
    }

    private mutating func forgetPIN() {
        session.isPINVerified = false
        session.isPINFresh = false
    }

    private static func halves(_ data: [UInt8]) throws(StatusWord) -> (ArraySlice<UInt8>, ArraySlice<UInt8>) {
        guard data.count == 2 * CountedSecret.paddedLength else { throw .incorrectData }
        return (data.prefix(CountedSecret.paddedLength), data.suffix(CountedSecret.paddedLength))
    }
}

/// A PIN or a PUK with its retry counter.
struct CountedSecret: Hashable {
    private(set) var value: [UInt8]
    private(set) var limit: Int
    private(set) var attemptsLeft: Int
    private let factoryValue: [UInt8]

    /// The length in commands in bytes; shorter values are padded with FF (SP 800-73-4 Part 2 section 2.4.3).
    static let paddedLength = 8
    private static let shortest = 6
    private static let filler: UInt8 = 0xFF

    /// - Parameter limit: The number of consecutive wrong attempts that block it, 1 to 255.
    init(_ text: String, limit: Int = 3) {
        factoryValue = Array(text.utf8)
        value = factoryValue
        self.limit = limit
        attemptsLeft = limit
    }

    var isDefault: Bool { value == factoryValue }
    var isBlocked: Bool { attemptsLeft == 0 }

    /// Compares a value and counts the attempt.
    ///
    /// - Parameter candidate: The padded form, 8 bytes.
    /// - Throws: ``StatusWord/authenticationBlocked`` if no attempt is left before or after this one; otherwise
    ///   ``StatusWord/wrongSecret(attemptsLeft:)`` for a wrong value; ``StatusWord/incorrectData`` for another length,
    ///   which does not count as an attempt.
    mutating func verify(_ candidate: ArraySlice<UInt8>) throws(StatusWord) {
        guard candidate.count == Self.paddedLength else { throw .incorrectData }
        guard !isBlocked else { throw .authenticationBlocked }
        guard Self.unpadded(candidate) == value else {
            attemptsLeft -= 1
            throw status
        }
        attemptsLeft = limit
    }

    /// The response to VERIFY without a PIN.
    var status: StatusWord { isBlocked ? .authenticationBlocked : .wrongSecret(attemptsLeft: attemptsLeft) }

    /// Verifies the old value, then replaces it.
    mutating func change(from old: ArraySlice<UInt8>, to replacement: ArraySlice<UInt8>) throws(StatusWord) {
        try verify(old)
        try reset(to: replacement)
    }

    /// Replaces the value and restores all attempts.
    ///
    /// - Parameter replacement: The padded form, 8 bytes.
    /// - Throws: ``StatusWord/incorrectData`` for fewer than six bytes without padding.
    mutating func reset(to replacement: ArraySlice<UInt8>) throws(StatusWord) {
        let unpadded = Self.unpadded(replacement)
        guard replacement.count == Self.paddedLength, unpadded.count >= Self.shortest else { throw .incorrectData }
        value = unpadded
        attemptsLeft = limit
    }

    private static func unpadded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        Array(bytes[..<((bytes.lastIndex { $0 != filler }).map { $0 + 1 } ?? bytes.startIndex)])
    }
}
