internal import Glibc

/// What pcscd tells about its readers, in its own protocol (pcsc-lite, winscard_msg.h, version 4.4).
enum PCSCDaemon {
    /// Where pcscd's state is; fixed when it was compiled.
    static let directory = "/run/pcscd"
    static let socketPath = "\(directory)/pcscd.comm"

    /// A reader that pcscd knows, and whether there is a card in it.
    struct Reader: Hashable {
        let name: String
        let hasCard: Bool
        /// How often pcscd noticed that a card came or went.
        let changes: UInt32
    }

    /// Whether a pcscd takes connections.
    static var isRunning: Bool { UNIXSocket(path: socketPath) != nil }

    /// - Returns: nil when no pcscd answers within a second, or it speaks another version.
    static func readers() -> [Reader]? {
        guard
            let socket = UNIXSocket(path: socketPath),
            let version = socket.exchange(message(versionRequest, protocolVersion + word(0)), within: 1000),
            version.count == 12, version.suffix(4).allSatisfy({ $0 == 0 }),
            let states = socket.exchange(message(readersRequest, []), within: 1000),
            states.count == maximumReaders * stateLength
        else { return nil }
        return (0..<maximumReaders).compactMap { reader(states.dropFirst($0 * stateLength).prefix(stateLength)) }
    }

    private static let versionRequest: UInt32 = 0x11
    private static let readersRequest: UInt32 = 0x12
    private static let protocolVersion = word(4) + word(4)
    /// PCSCLITE_MAX_READERS_CONTEXTS.
    private static let maximumReaders = 16
    /// A name of 128 bytes, three words of which the second is the state, 33 bytes of ATR filled up to 36, its length in 8 bytes.
    private static let stateLength = 184
    private static let nameLength = 128
    private static let changesOffset = 128
    private static let stateOffset = 132
    /// SCARD_PRESENT.
    private static let presentBit: UInt8 = 0x04

    private static func reader(_ state: ArraySlice<UInt8>) -> Reader? {
        let name = state.prefix(nameLength).prefix { $0 != 0 }
        guard !name.isEmpty, let flags = state.dropFirst(stateOffset).first else { return nil }
        let changes = state.dropFirst(changesOffset).prefix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return Reader(
            name: String(decoding: name, as: UTF8.self), hasCard: flags & presentBit != 0, changes: changes)
    }

    private static func message(_ command: UInt32, _ body: [UInt8]) -> [UInt8] {
        word(UInt32(body.count)) + word(command) + body
    }

    private static func word(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }
}
