internal import Latchkey

/// The counter of wrong PINs of a smart card, read from the card itself. PKCS#11 has only flags for
/// a low count and for the last attempt (`CKF_USER_PIN_COUNT_LOW`, `CKF_USER_PIN_FINAL_TRY`).
enum PINCounter: Hashable, Sendable {
    /// The PIV Card Application PIN (NIST SP 800-73-4 part 2 section 3.2.1).
    case piv
    /// PW1, the user's PIN (OpenPGP application 3.4 section 4.4.1, tag C4). Its modes 81 and 82
    /// share one counter.
    case openPGP

    /// Reads the counter from the card in a reader.
    ///
    /// - Parameters:
    ///   - reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    ///   - limit: How long another program's use of the card may delay the answer.
    /// - Returns: nil if the card does not report the counter, for example because its PIN is
    ///   already verified, or if another program holds the card.
    func attemptsLeft(inReader reader: String, within limit: Duration) -> Int? {
        // The application is selected only if it does not answer, because selecting it ends a login
        // on some cards.
        let responses = PCSCLibrary.responses(in: reader, within: limit) { [self] responses in
            switch responses.count {
            case 0: query
            case 1 where attemptsLeft(in: responses[0]) == nil && !isVerified(responses[0]):
                selection
            case 2 where Self.isSelected(responses[1]): query
            default: nil
            }
        }
        return responses?.last.flatMap(attemptsLeft)
    }

    /// Whether a program has given the right PIN, so that a PIV card does not tell its counter.
    private func isVerified(_ response: [UInt8]) -> Bool {
        self == .piv && response == [0x90, 0x00]
    }

    /// SELECT by the application's identifier.
    private var selection: [UInt8] {
        let identifier: [UInt8] =
            switch self {
            case .piv: [0xA0, 0x00, 0x00, 0x03, 0x08, 0x00, 0x00, 0x10, 0x00]
            case .openPGP: [0xD2, 0x76, 0x00, 0x01, 0x24, 0x01]
            }
        return [0x00, 0xA4, 0x04, 0x00, UInt8(identifier.count)] + identifier
    }

    /// VERIFY without a PIN, which does not change the counter; or GET DATA of the PW Status Bytes.
    private var query: [UInt8] {
        switch self {
        case .piv: [0x00, 0x20, 0x00, 0x80]
        case .openPGP: [0x00, 0xCA, 0x00, 0xC4, 0x00]
        }
    }

    /// Reads the response to the query.
    ///
    /// - Returns: 0 if the PIN is blocked; nil for any other response.
    func attemptsLeft(in response: [UInt8]) -> Int? {
        guard response.count >= 2 else { return nil }
        let status =
            UInt16(response[response.count - 2]) << 8 | UInt16(response[response.count - 1])
        switch self {
        case .piv where status & 0xFFF0 == 0x63C0: return Int(status & 0xF)
        case .piv where status == 0x6983: return 0
        // Seven bytes; the fifth one is for PW1.
        case .openPGP where status == 0x9000 && response.count == 9: return Int(response[4])
        case .piv, .openPGP: return nil
        }
    }

    /// 9000, or 61xx for a response that is read in a second step.
    private static func isSelected(_ response: [UInt8]) -> Bool {
        response.suffix(2) == [0x90, 0x00] || response.suffix(2).first == 0x61
    }
}
