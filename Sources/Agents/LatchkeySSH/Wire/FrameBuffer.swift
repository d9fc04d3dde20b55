/// Assembles the messages of a client from the bytes of a stream. Stores at most one message.
package struct FrameBuffer {
    private var bytes: [UInt8] = []

    package init() {}

    /// The number of bytes to read next, at least 1, so that a read never goes beyond the current
    /// message.
    package mutating func missing() throws(SSHFormatError) -> Int {
        guard bytes.count >= 4 else { return 4 - bytes.count }
        return 4 + (try length()) - bytes.count
    }

    package mutating func append(_ more: some Sequence<UInt8>) { bytes += more }

    /// The message without its length, if it is complete.
    package mutating func next() throws(SSHFormatError) -> [UInt8]? {
        guard bytes.count >= 4 else { return nil }
        let length = try length()
        guard bytes.count >= 4 + length else { return nil }
        defer { bytes.removeFirst(4 + length) }
        return Array(bytes[4..<(4 + length)])
    }

    private func length() throws(SSHFormatError) -> Int {
        let length = bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        guard (1...AgentRequest.maximumBytes).contains(length) else {
            throw SSHFormatError("a message has \(length) bytes")
        }
        return length
    }
}
