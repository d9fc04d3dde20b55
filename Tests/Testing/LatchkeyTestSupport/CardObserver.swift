internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import LatchkeySimulators
package import VirtualSmartCard

/// A shared connection to a card's PIV application that does not verify a PIN, like another program
/// on the same pcscd.
///
/// While it is connected, pcscd keeps the card powered, so a login lasts until a program ends it.
/// Its calls block during another program's transaction.
package final class CardObserver {
    private typealias Establish =
        @convention(c) (UInt, UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutablePointer<Int>)
        -> Int
    private typealias Connect =
        @convention(c) (
            Int, UnsafePointer<CChar>, UInt, UInt, UnsafeMutablePointer<Int>,
            UnsafeMutablePointer<UInt>
        ) -> Int
    private typealias Reconnect =
        @convention(c) (Int, UInt, UInt, UInt, UnsafeMutablePointer<UInt>) -> Int
    private typealias Transmit =
        @convention(c) (
            Int, UnsafePointer<UInt>, UnsafePointer<UInt8>, UInt, UnsafeRawPointer?,
            UnsafeMutablePointer<UInt8>,
            UnsafeMutablePointer<UInt>
        ) -> Int
    private typealias Release = @convention(c) (Int) -> Int

    private let reconnect: Reconnect
    private let transmit: Transmit
    private let begin: Release
    private let release: Release
    private var context = 0
    private var card = 0
    private var protocolInUse: UInt = 0
    /// The number of card resets that it noticed.
    package private(set) var resets = 0

    /// Connects to the card in a slot of the virtual reader and selects the PIV application.
    ///
    /// - Parameter isExclusive: Whether no other program can connect.
    package init(slotOfReader: Int = 0, isExclusive: Bool = false) throws {
        let library = try OptionalLibrary("libpcsclite.so.1")
        let establish: Establish = try library.function("SCardEstablishContext")
        let connect: Connect = try library.function("SCardConnect")
        reconnect = try library.function("SCardReconnect")
        transmit = try library.function("SCardTransmit")
        begin = try library.function("SCardBeginTransaction")
        release = try library.function("SCardReleaseContext")
        try Self.check("SCardEstablishContext", establish(2, nil, nil, &context))
        let name = SmartCardReader.name(ofSlot: slotOfReader)
        try Self.check(
            "SCardConnect",
            connect(context, name, isExclusive ? 1 : 2, 3, &card, &protocolInUse))
        _ = try answer(to: Self.selection)
    }

    deinit { _ = release(context) }

    /// Begins a transaction, which ends with the observer.
    package func beginTransaction() throws { try Self.check("SCardBeginTransaction", begin(card)) }

    /// Whether VERIFY without a PIN reports a verified PIN.
    package func seesVerifiedPIN() throws -> Bool {
        try answer(to: [0x00, 0x20, 0x00, 0x80]) == 0x9000
    }

    /// Whether the key in a slot signs without a PIN.
    package func signs(with slot: KeySlot) throws -> Bool {
        let digest = [UInt8](repeating: 0x11, count: 32)
        let template: [UInt8] = [0x82, 0x00, 0x81, 0x20] + digest
        return try answer(
            to: [0x00, 0x87, 0x11, slot.rawValue, 0x26, 0x7c, 0x24] + template + [0x00]) == 0x9000
    }

    /// Whether the card generates a key without the management key. If it does, the earlier key in
    /// the slot is lost.
    package func generates(in slot: KeySlot) throws -> Bool {
        try answer(to: [0x00, 0x47, 0x00, slot.rawValue, 0x05, 0xac, 0x03, 0x80, 0x01, 0x11, 0x00])
            == 0x9000
    }

    /// Sends a command. After a reset of the card, selects the application again first.
    ///
    /// - Returns: The status word.
    private func answer(to command: [UInt8]) throws -> UInt16 {
        var (code, status) = exchange(command)
        if Self.wasReset.contains(code) { resets += 1 }
        // Another program may reset the card again before the command.
        for _ in 0..<10 where Self.wasReset.contains(code) {
            try Self.check("SCardReconnect", reconnect(card, 2, 3, 0, &protocolInUse))
            let selection = exchange(Self.selection)
            (code, status) = Self.wasReset.contains(selection.code) ? selection : exchange(command)
        }
        try Self.check("SCardTransmit", Int(code))
        return status
    }

    private func exchange(_ command: [UInt8]) -> (code: UInt32, status: UInt16) {
        var response = [UInt8](repeating: 0, count: 4096)
        var count = UInt(response.count)
        let header: [UInt] = [protocolInUse, 16]
        let code = transmit(card, header, command, UInt(command.count), nil, &response, &count)
        let last = response.prefix(Int(count)).suffix(2)
        return (UInt32(truncatingIfNeeded: code), last.reduce(0) { $0 << 8 | UInt16($1) })
    }

    private static let selection: [UInt8] = [
        0x00, 0xa4, 0x04, 0x00, 0x05, 0xa0, 0x00, 0x00, 0x03, 0x08,
    ]
    /// `SCARD_W_RESET_CARD`, and `SCARD_E_PROTO_MISMATCH` until a program has chosen the protocol
    /// after a reset.
    private static let wasReset: Set<UInt32> = [0x8010_0068, 0x8010_000f]

    private static func check(_ function: String, _ code: Int) throws {
        let code = UInt32(truncatingIfNeeded: code)
        guard code == 0 else { throw failure(function, code) }
    }

    private static func failure(_ function: String, _ code: UInt32) -> KeystoreError {
        KeystoreError(
            operation: "observe the card", code: .failed,
            reason: "\(function): 0x\(String(code, radix: 16))",
            recovery: "Check that pcscd runs.")
    }
}
