/// What the driver `vpcd` says to a card: a length of two bytes, high byte first, and as many bytes (vsmartcard's
/// documentation, "Virtual Smart Card", protocol between vpcd and vpicc).
enum ReaderMessage: Hashable {
    /// Power off (0), power on (1) or reset (2). No answer is expected.
    case powerChange
    /// The card is asked for its answer to reset (4).
    case answerToReset
    case command([UInt8])

    /// Waits for the next message.
    ///
    /// - Returns: nil when the reader hung up or says something else.
    static func receive(from connection: StreamSocket) -> ReaderMessage? {
        guard
            let header = connection.receiveAcknowledging(2),
            let body = connection.receiveAcknowledging(Int(header[0]) << 8 | Int(header[1]))
        else { return nil }
        guard body.count == 1 else { return body.isEmpty ? nil : .command(body) }
        switch body[0] {
        case 0, 1, 2: return .powerChange
        case 4: return .answerToReset
        default: return nil
        }
    }

    /// A message as it goes over the wire.
    ///
    /// - Parameter bytes: At most 65535; a response that says more is cut and its status word lost.
    static func framed(_ bytes: [UInt8]) -> [UInt8] {
        let body = bytes.prefix(0xFFFF)
        return [UInt8(body.count >> 8), UInt8(body.count & 0xFF)] + body
    }
}
