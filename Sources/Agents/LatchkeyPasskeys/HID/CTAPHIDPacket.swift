/// A packet of CTAPHID: 64 bytes (CTAP 2.0 section "USB HID message and packet structure").
enum CTAPHIDPacket: Hashable, Sendable {
    /// The first packet of a message. `count` is the length of the whole message; `data` has up to
    /// 57 bytes.
    case initial(channel: UInt32, command: UInt8, count: Int, data: ArraySlice<UInt8>)
    /// A further packet, with up to 59 bytes.
    case continuation(channel: UInt32, sequence: UInt8, data: ArraySlice<UInt8>)

    static let byteCount = 64
    static let initialBytes = 57
    static let continuationBytes = 59
    /// The longest message: 57 + 128 · 59 bytes.
    static let maximumMessageBytes = 7609

    /// - Returns: nil unless there are 64 bytes.
    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        let channel = bytes[..<4].reduce(0) { $0 << 8 | UInt32($1) }
        if bytes[4] & 0x80 != 0 {
            self = .initial(
                channel: channel, command: bytes[4] & 0x7F,
                count: Int(bytes[5]) << 8 | Int(bytes[6]), data: bytes[7...]
            )
        } else {
            self = .continuation(channel: channel, sequence: bytes[4], data: bytes[5...])
        }
    }

    /// The packets of a message. A longer one than ``maximumMessageBytes`` cannot be sent.
    static func packets(of message: [UInt8], command: UInt8, on channel: UInt32) -> [[UInt8]] {
        let id = (0..<4).map { UInt8(truncatingIfNeeded: channel >> (8 * (3 - $0))) }
        let head =
            id + [
                command | 0x80, UInt8(truncatingIfNeeded: message.count >> 8),
                UInt8(message.count & 0xFF),
            ]
        var packets = [padded(head + message.prefix(initialBytes))]
        var rest = message.dropFirst(initialBytes)
        var sequence: UInt8 = 0
        while !rest.isEmpty {
            packets.append(padded(id + [sequence & 0x7F] + rest.prefix(continuationBytes)))
            rest = rest.dropFirst(continuationBytes)
            sequence &+= 1
        }
        return packets
    }

    private static func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: max(0, byteCount - bytes.count))
    }
}

/// The commands of CTAPHID (CTAP 2.0 section "CTAPHID commands").
enum CTAPHIDCommand {
    static let ping: UInt8 = 0x01
    static let initialize: UInt8 = 0x06
    static let wink: UInt8 = 0x08
    static let cbor: UInt8 = 0x10
    static let cancel: UInt8 = 0x11
    static let keepalive: UInt8 = 0x3B
    static let error: UInt8 = 0x3F
}

/// The error codes of `CTAPHID_ERROR`.
package enum CTAPHIDError: UInt8, Sendable {
    case invalidCommand = 0x01
    case invalidParameter = 0x02
    case invalidLength = 0x03
    case invalidSequence = 0x04
    case messageTimeout = 0x05
    case channelBusy = 0x06
    case invalidChannel = 0x0B
    case other = 0x7F
}

/// The state that `CTAPHID_KEEPALIVE` reports while a request runs.
package enum KeepaliveStatus: UInt8, Sendable {
    /// The authenticator works.
    case processing = 1
    /// The authenticator waits for the user.
    case userPresenceNeeded = 2
}
