internal import Glibc
internal import Latchkey
internal import Synchronization

/// Resets smart cards through pcscd (PC/SC), which ends every login on the card.
///
/// `C_Logout` of Yubico's and OpenSC's modules leaves the card unlocked for every program that may use pcscd. The client
/// library `libpcsclite` is loaded when the first card is reset; both modules depend on it.
enum CardReset {
    /// Resets the card in a reader, and waits while another program's transaction holds it.
    ///
    /// Nothing happens if the reader has no card, or if PC/SC knows no such reader and no other reader has a card. A reset
    /// that takes longer than `limit` continues in its own thread; a later call for the same reader first waits for it.
    ///
    /// - Parameter reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    /// - Throws: `leftUnlocked` when the reset failed or took longer than `limit`, or when PC/SC knows no such reader
    ///   although another one has a card.
    static func reset(reader: String, within limit: Duration) throws(CryptokiError) {
        guard let library else { return }
        let deadline = ContinuousClock.now + limit
        while !Self.readersInUse.withLock({ $0.insert(reader).inserted }) {
            guard ContinuousClock.now < deadline else { throw .heldByAnotherProgram }
            usleep(2000)
        }
        let finish: @Sendable () -> Void = { Self.readersInUse.withLock { _ = $0.remove(reader) } }
        let code = BlockingThread.run(within: deadline - .now, unstarted: finish) {
            defer { finish() }
            return library.resetCards(in: reader, until: deadline)
        }
        switch code {
        case PCSCLibrary.success: return
        case nil: throw .heldByAnotherProgram
        case PCSCLibrary.unknownReader:
            throw CryptokiError(
                .leftUnlocked, function: "SCardListReaders",
                reason: "the card could not be reset: PC/SC has no reader with the name of the slot, ‘\(reader)’")
        case let code?:
            throw CryptokiError(
                .leftUnlocked, function: "SCardDisconnect",
                reason: "the card could not be reset: PC/SC answered 0x\(String(code, radix: 16))")
        }
    }

    /// Whether PC/SC knows that no card is in a reader, which may itself be removed. Blocks for at most a second.
    ///
    /// - Parameter reader: Its name like in ``reset(reader:within:)``; empty for all readers.
    static func findsNoCard(in reader: String) -> Bool {
        guard let library else { return false }
        return BlockingThread.run(within: .seconds(1), unstarted: {}) { library.findsNoCard(in: reader) } ?? false
    }

    static func findsNoCard(in reader: String) async -> Bool {
        await withUnsafeContinuation { continuation in
            let isStarted = BlockingThread.start {
                let isGone: Bool = findsNoCard(in: reader)
                continuation.resume(returning: isGone)
            }
            if !isStarted { continuation.resume(returning: false) }
        }
    }

    private static let library = PCSCLibrary()
    /// The readers whose cards threads are resetting.
    private static let readersInUse = Mutex<Set<String>>([])
}

extension CryptokiError {
    fileprivate static var heldByAnotherProgram: CryptokiError {
        CryptokiError(
            .leftUnlocked, function: "SCardConnect", reason: "the card was not reset: another program held it")
    }
}

/// The cards that this process has unlocked and not locked again.
///
/// A card whose reset failed stays in the set. The process resets these cards in `exit(3)`, because pcscd (1.9.9) leaves a card
/// unlocked if a program that used it ends and another one is connected to it.
final class UnlockedCards: Sendable {
    static let shared = UnlockedCards()

    private struct State {
        /// The readers, by the connections that unlocked their cards.
        var readers: [ObjectIdentifier: String] = [:]
        var locksAtExit = false
        var callsInProgress = 0
        /// Whether the process ends, so that no module may be called any more.
        var isClosed = false
    }

    private let state = Mutex(State())

    private init() {}

    /// Records that a proof will be sent to the token in a reader.
    func add(_ connection: ObjectIdentifier, reader: String) {
        let isFirst = state.withLock { state in
            state.readers[connection] = reader
            defer { state.locksAtExit = true }
            return !state.locksAtExit
        }
        if isFirst { atexit { UnlockedCards.shared.lockAll() } }
    }

    func remove(_ connection: ObjectIdentifier) {
        state.withLock { _ = $0.readers.removeValue(forKey: connection) }
    }

    /// - Throws: `cancelled` once the process ends.
    func beginCall() throws(CryptokiError) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.callsInProgress += 1 }
            return state.isClosed
        }
        if isClosed { throw CryptokiError(.cancelled, reason: "the program ends") }
    }

    func endCall() { state.withLock { $0.callsInProgress -= 1 } }

    /// Locks the cards of a process that ends: no module is called afterwards. Waits at most `limit` until calls in progress
    /// return, such as one that waits for a touch.
    func lockAll(within limit: Duration = .seconds(3)) {
        let deadline = ContinuousClock.now + limit
        let readers = state.withLock { state in
            state.isClosed = true
            defer { state.readers = [:] }
            return Set(state.readers.values)
        }
        guard !readers.isEmpty else { return }
        while state.withLock({ $0.callsInProgress > 0 }), ContinuousClock.now < deadline { usleep(2000) }
        for reader in readers {
            try? CardReset.reset(reader: reader, within: max(deadline - .now, .milliseconds(500)))
        }
    }
}

/// The functions of pcsc-lite's client library (winscard.h) that reset a card. `LONG` and `DWORD` have the size of `Int`
/// on Linux.
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
        0x8010_0009, 0x8010_000c, 0x8010_0017, 0x8010_001d, 0x8010_001e, 0x8010_002e, 0x8010_0066, 0x8010_0067,
        0x8010_0069,
    ]
    /// `SCARD_SCOPE_SYSTEM`, `SCARD_SHARE_SHARED`, T=0 or T=1, and `SCARD_RESET_CARD`.
    private static let (systemScope, shared, anyProtocol, resetAction): (UInt, UInt, UInt, UInt) = (2, 2, 3, 1)
    /// How many bytes of a reader's name a slot's description holds (`CK_SLOT_INFO`).
    private static let descriptionBytes = 64
    /// `SCARD_STATE_PRESENT`
    private static let cardPresent: UInt = 0x20
    /// The names of 16 readers with 128 bytes each (`PCSCLITE_MAX_READERS_CONTEXTS`).
    private static let namesBytes = 16 * 129 + 1

    private let establish: @convention(c) (UInt, UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutablePointer<Int>) -> Int
    private let release: @convention(c) (Int) -> Int
    private let listReaders:
        @convention(c) (Int, UnsafePointer<CChar>?, UnsafeMutablePointer<CChar>?, UnsafeMutablePointer<UInt>) -> Int
    private let connect:
        @convention(c) (
            Int, UnsafePointer<CChar>, UInt, UInt, UnsafeMutablePointer<Int>, UnsafeMutablePointer<UInt>
        ) -> Int
    private let disconnect: @convention(c) (Int, UInt) -> Int
    private let getStatusChange: @convention(c) (Int, UInt, UnsafeMutablePointer<UInt>, UInt) -> Int

    /// - Returns: nil on a machine without pcsc-lite, where no module reaches a card through it.
    init?() {
        guard let handle = dlopen("libpcsclite.so.1", RTLD_NOW | RTLD_LOCAL) else { return nil }
        struct Missing: Error {}
        func function<F>(_ name: String) throws(Missing) -> F {
            guard let symbol = dlsym(handle, name) else { throw Missing() }
            return unsafeBitCast(symbol, to: F.self)
        }
        do {
            establish = try function("SCardEstablishContext")
            release = try function("SCardReleaseContext")
            listReaders = try function("SCardListReaders")
            connect = try function("SCardConnect")
            disconnect = try function("SCardDisconnect")
            getStatusChange = try function("SCardGetStatusChange")
        } catch {
            return nil
        }
    }

    /// Connects to the card in a reader and disconnects with a reset. Tries again until the deadline while another
    /// program uses the card exclusively. If several readers have names that fit, the cards in all of them are reset.
    ///
    /// - Returns: A code of PC/SC; ``success`` also if no card is in the reader, and ``unknownReader`` if no reader has the
    ///   name and another one has a card.
    func resetCards(in description: String, until deadline: ContinuousClock.Instant) -> UInt32 {
        var context = 0
        let code = Self.code(establish(Self.systemScope, nil, nil, &context))
        guard code == Self.success else { return Self.withoutCard.contains(code) ? Self.success : code }
        defer { _ = release(context) }
        let known = readers(context)
        guard known.code == Self.success else { return known.code == Self.noReaders ? Self.success : known.code }
        let names = known.names.filter { Self.describes($0, description) }
        guard !names.isEmpty else {
            return known.names.contains(where: { hasCard($0, context) }) ? Self.unknownReader : Self.success
        }
        let codes = names.map { resetCard(in: $0, context, until: deadline) }
        return codes.first(where: { $0 != Self.success }) ?? Self.success
    }

    private func resetCard(in name: String, _ context: Int, until deadline: ContinuousClock.Instant) -> UInt32 {
        while true {
            var (card, protocolInUse) = (0, UInt(0))
            var code = Self.code(connect(context, name, Self.shared, Self.anyProtocol, &card, &protocolInUse))
            if code == Self.success { code = Self.code(disconnect(card, Self.resetAction)) }
            guard code == Self.sharingViolation, ContinuousClock.now < deadline else {
                return Self.withoutCard.contains(code) ? Self.success : code
            }
            usleep(20_000)
        }
    }

    /// - Returns: Whether no reader with the name has a card, for an empty name no reader at all; false if PC/SC does not answer.
    func findsNoCard(in description: String) -> Bool {
        var context = 0
        guard Self.code(establish(Self.systemScope, nil, nil, &context)) == Self.success else { return false }
        defer { _ = release(context) }
        let known = readers(context)
        guard known.code == Self.success || known.code == Self.noReaders else { return false }
        return !known.names.contains { name in
            (description.isEmpty || Self.describes(name, description)) && hasCard(name, context)
        }
    }

    private func hasCard(_ reader: String, _ context: Int) -> Bool {
        reader.withCString { name in
            // `SCARD_READERSTATE`: name, user data, known state, present state, length of the ATR, and 33 bytes for it.
            var state = [UInt](repeating: 0, count: 10)
            state[0] = UInt(bitPattern: name)
            let code = Self.code(getStatusChange(context, 0, &state, 1))
            return code == Self.success ? state[3] & Self.cardPresent != 0 : !Self.withoutCard.contains(code)
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

    /// Whether a slot's description is the reader's name, truncated to 64 bytes and sanitized like all text of a module.
    static func describes(_ reader: String, _ description: String) -> Bool {
        let name = Array(reader.utf8.prefix(descriptionBytes))
        return name.withUnsafeBytes { String(blankPadded: $0) } == description
    }

    private static func code(_ value: Int) -> UInt32 { UInt32(truncatingIfNeeded: value) }
}
