internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// The functions of pcsc-lite's client library (winscard.h) that reset a card and send commands to
/// it. `LONG` and `DWORD` have the size of `Int` on Linux.
///
/// The library is loaded when a card is first used; Yubico's and OpenSC's modules depend on it.
struct PCSCLibrary: Sendable {
    static let success: UInt32 = 0
    /// `SCARD_E_UNKNOWN_READER`
    static let unknownReader: UInt32 = 0x8010_0009
    /// `SCARD_E_NO_READERS_AVAILABLE`
    private static let noReaders: UInt32 = 0x8010_002e
    /// `SCARD_E_SHARING_VIOLATION`: another program uses the card exclusively.
    private static let sharingViolation: UInt32 = 0x8010_000b
    /// The card or its reader is gone, has no power, or pcscd does not run: it cannot be unlocked.
    private static let withoutCard: Set<UInt32> = [
        0x8010_0009, 0x8010_000c, 0x8010_0017, 0x8010_001d, 0x8010_001e, 0x8010_002e, 0x8010_0066,
        0x8010_0067,
        0x8010_0069,
    ]
    /// `SCARD_SCOPE_SYSTEM`, `SCARD_SHARE_SHARED`, and T=0 or T=1.
    private static let (systemScope, shared, anyProtocol): (UInt, UInt, UInt) = (2, 2, 3)
    /// `SCARD_LEAVE_CARD` and `SCARD_RESET_CARD`.
    private static let (leaveAction, resetAction): (UInt, UInt) = (0, 1)
    /// How many bytes of a reader's name a slot's description holds (`CK_SLOT_INFO`).
    private static let descriptionBytes = 64
    /// `SCARD_STATE_PRESENT`
    private static let cardPresent: UInt = 0x20
    /// The names of 16 readers with 128 bytes each (`PCSCLITE_MAX_READERS_CONTEXTS`).
    private static let namesBytes = 16 * 129 + 1

    private let establish:
        @convention(c) (UInt, UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutablePointer<Int>) ->
            Int
    private let release: @convention(c) (Int) -> Int
    private let listReaders:
        @convention(c) (
            Int, UnsafePointer<CChar>?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<UInt>
        ) -> Int
    private let connect:
        @convention(c) (
            Int, UnsafePointer<CChar>, UInt, UInt, UnsafeMutablePointer<Int>,
            UnsafeMutablePointer<UInt>
        ) -> Int
    private let disconnect: @convention(c) (Int, UInt) -> Int
    private let getStatusChange: @convention(c) (Int, UInt, UnsafeMutablePointer<UInt>, UInt) -> Int
    private let beginTransaction: @convention(c) (Int) -> Int
    private let endTransaction: @convention(c) (Int, UInt) -> Int
    private let transmit:
        @convention(c) (
            Int, UnsafePointer<UInt>, UnsafePointer<UInt8>, UInt, UnsafeRawPointer?,
            UnsafeMutablePointer<UInt8>,
            UnsafeMutablePointer<UInt>
        ) -> Int

    static let loaded = PCSCLibrary()

    /// - Returns: nil on a machine without pcsc-lite, where no module reaches a card through it.
    private init?() {
        do {
            let library = try OptionalLibrary("libpcsclite.so.1")
            establish = try library.function("SCardEstablishContext")
            release = try library.function("SCardReleaseContext")
            listReaders = try library.function("SCardListReaders")
            connect = try library.function("SCardConnect")
            disconnect = try library.function("SCardDisconnect")
            getStatusChange = try library.function("SCardGetStatusChange")
            beginTransaction = try library.function("SCardBeginTransaction")
            endTransaction = try library.function("SCardEndTransaction")
            transmit = try library.function("SCardTransmit")
        } catch {
            return nil
        }
    }

    /// Connects to the card in a reader and disconnects with a reset. Tries again until the
    /// deadline while another program uses the card exclusively. If several readers have names that
    /// fit, the cards in all of them are reset.
    ///
    /// - Returns: A code of PC/SC; ``success`` also if no card is in the reader, and
    ///   ``unknownReader`` if no reader has the name and another one has a card.
    func resetCards(in description: String, until deadline: ContinuousClock.Instant) -> UInt32 {
        var context = 0
        let code = Self.code(establish(Self.systemScope, nil, nil, &context))
        guard code == Self.success else {
            return Self.withoutCard.contains(code) ? Self.success : code
        }
        defer { _ = release(context) }
        let known = readers(context)
        guard known.code == Self.success else {
            return known.code == Self.noReaders ? Self.success : known.code
        }
        let names = known.names.filter { Self.describes($0, description) }
        guard !names.isEmpty else {
            return known.names.contains(where: { hasCard($0, context) })
                ? Self.unknownReader : Self.success
        }
        let codes = names.map { resetCard(in: $0, context, until: deadline) }
        return codes.first(where: { $0 != Self.success }) ?? Self.success
    }

    private func resetCard(in name: String, _ context: Int, until deadline: ContinuousClock.Instant)
        -> UInt32
    {
        let code = repeating(until: deadline) {
            let (code, card, _) = connect(to: name, context)
            return code == Self.success ? Self.code(disconnect(card, Self.resetAction)) : code
        }
        return Self.withoutCard.contains(code) ? Self.success : code
    }

    private func connect(to reader: String, _ context: Int) -> (
        code: UInt32, card: Int, protocolInUse: UInt
    ) {
        var (card, protocolInUse) = (0, UInt(0))
        let code = Self.code(
            connect(context, reader, Self.shared, Self.anyProtocol, &card, &protocolInUse))
        return (code, card, protocolInUse)
    }

    /// Tries again until the deadline while another program uses the card exclusively.
    private func repeating(until deadline: ContinuousClock.Instant, _ body: () -> UInt32) -> UInt32
    {
        while true {
            let code = body()
            guard code == Self.sharingViolation, ContinuousClock.now < deadline else { return code }
            usleep(20_000)
        }
    }

    /// - Returns: Whether no reader with the name has a card, for an empty name no reader at all;
    ///   false if PC/SC does not answer.
    func findsNoCard(in description: String) -> Bool {
        var context = 0
        guard Self.code(establish(Self.systemScope, nil, nil, &context)) == Self.success else {
            return false
        }
        defer { _ = release(context) }
        let known = readers(context)
        guard known.code == Self.success || known.code == Self.noReaders else { return false }
        return !known.names.contains { name in
            (description.isEmpty || Self.describes(name, description)) && hasCard(name, context)
        }
    }

    /// The readers with a card; empty if PC/SC does not answer.
    func readersWithCards() -> [String] {
        var context = 0
        guard Self.code(establish(Self.systemScope, nil, nil, &context)) == Self.success else {
            return []
        }
        defer { _ = release(context) }
        return readers(context).names.filter { hasCard($0, context) }
    }

    private func hasCard(_ reader: String, _ context: Int) -> Bool {
        reader.withCString { name in
            // `SCARD_READERSTATE`: name, user data, known state, present state, length of the ATR,
            // and 33 bytes for it.
            var state = [UInt](repeating: 0, count: 10)
            state[0] = UInt(bitPattern: name)
            let code = Self.code(getStatusChange(context, 0, &state, 1))
            return code == Self.success
                ? state[3] & Self.cardPresent != 0 : !Self.withoutCard.contains(code)
        }
    }

    private func readers(_ context: Int) -> (code: UInt32, names: [String]) {
        var names = [CChar](repeating: 0, count: Self.namesBytes)
        var count = UInt(names.count)
        let code = Self.code(listReaders(context, nil, &names, &count))
        guard code == Self.success else { return (code, []) }
        let readers = names.prefix(Int(clamping: count)).split(separator: 0).map { name in
            String(decoding: name.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        return (code, readers)
    }

    /// Whether a slot's description is the reader's name, truncated to 64 bytes and sanitized like
    /// all text of a module.
    static func describes(_ reader: String, _ description: String) -> Bool {
        let name = Array(reader.utf8.prefix(descriptionBytes))
        return name.withUnsafeBytes { String(blankPadded: $0) } == description
    }

    private static func code(_ value: Int) -> UInt32 { UInt32(truncatingIfNeeded: value) }
}

extension PCSCLibrary {
    /// The readers that a thread uses, perhaps one that still waits for another program's
    /// transaction.
    private static let readersInUse = Mutex<Set<String>>([])

    /// Uses a reader in a new thread, after other threads that use it.
    ///
    /// - Returns: nil after `limit`, while the thread continues, and without pcsc-lite or a thread.
    static func inThread<R: Sendable>(
        for reader: String, within limit: Duration,
        _ body: @escaping @Sendable (PCSCLibrary, ContinuousClock.Instant) -> R
    ) -> R? {
        guard let library = loaded else { return nil }
        let deadline = ContinuousClock.now + limit
        while !readersInUse.withLock({ $0.insert(reader).inserted }) {
            guard ContinuousClock.now < deadline else { return nil }
            usleep(2000)
        }
        let finish: @Sendable () -> Void = { readersInUse.withLock { _ = $0.remove(reader) } }
        return BlockingThread.run(within: deadline - .now, unstarted: finish) {
            defer { finish() }
            return body(library, deadline)
        }
    }

    /// Sends commands to the card in a reader in one transaction, and leaves the card as it is.
    ///
    /// - Parameters:
    ///   - limit: The maximum wait. A thread that waits for another program's transaction
    ///     continues, and the next call for the reader waits for that thread.
    ///   - commands: Gets the responses so far, with their status words, and returns the next
    ///     command; nil to stop.
    /// - Returns: The responses; nil if no reader or more than one reader has the name, or if the
    ///   card cannot be used.
    static func responses(
        in reader: String, within limit: Duration,
        to commands: @escaping @Sendable ([[UInt8]]) -> [UInt8]?
    ) -> [[UInt8]]? {
        let responses = inThread(for: reader, within: limit) { (library, deadline) in
            library.responses(in: reader, until: deadline, to: commands)
        }
        return responses ?? nil
    }

    private func responses(
        in description: String, until deadline: ContinuousClock.Instant,
        to commands: ([[UInt8]]) -> [UInt8]?
    ) -> [[UInt8]]? {
        var context = 0
        guard Self.code(establish(Self.systemScope, nil, nil, &context)) == Self.success else {
            return nil
        }
        defer { _ = release(context) }
        let names = readers(context).names.filter { Self.describes($0, description) }
        guard let name = names.first, names.count == 1 else { return nil }
        var (card, protocolInUse) = (0, UInt(0))
        let code = repeating(until: deadline) {
            let connection = connect(to: name, context)
            (card, protocolInUse) = (connection.card, connection.protocolInUse)
            return connection.code
        }
        guard code == Self.success else { return nil }
        defer { _ = disconnect(card, Self.leaveAction) }
        guard Self.code(beginTransaction(card)) == Self.success else { return nil }
        defer { _ = endTransaction(card, Self.leaveAction) }
        var responses: [[UInt8]] = []
        while let command = commands(responses) {
            guard ContinuousClock.now < deadline,
                let response = response(to: command, card, protocolInUse)
            else {
                return nil
            }
            responses.append(response)
        }
        return responses
    }

    private func response(to command: [UInt8], _ card: Int, _ protocolInUse: UInt) -> [UInt8]? {
        // The longest short response: 256 bytes and the status word.
        var response = [UInt8](repeating: 0, count: 258)
        var count = UInt(response.count)
        // `SCARD_IO_REQUEST`: the protocol and the size of the structure.
        let header = [protocolInUse, UInt(2 * MemoryLayout<UInt>.size)]
        let code = Self.code(
            transmit(card, header, command, UInt(command.count), nil, &response, &count))
        guard code == Self.success, (2...UInt(response.count)).contains(count) else { return nil }
        return Array(response.prefix(Int(count)))
    }
}

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
