internal import CPlatform
internal import Glibc
internal import LatchkeyPlatform
internal import Synchronization

/// What a module's process writes to its descriptor 1: the messages of p11-kit's protocol, and what
/// the module prints.
///
/// `p11-kit remote` answers on descriptor 1 and on no other one, and modules print to it: a greeting,
/// a log. The descriptor is a pipe in packet mode (pipe(2), `O_DIRECT`), which keeps the boundaries
/// of the writes. Messages go on to the client; the rest goes to this process's standard error.
final class ModuleOutput: Sendable {
    private let readEnd: Int32
    private let writeEnd: Int32
    /// The connection to the client; nil after the end.
    private let connection: Mutex<Int32?>

    /// - Parameter connection: The connection to the client. This object closes it.
    init(to connection: Int32) throws(SystemError) {
        var ends: [Int32] = [-1, -1]
        guard latchkey_pipe2(&ends, O_CLOEXEC | latchkey_packet_mode) == 0 else {
            let error = SystemError.last
            close(connection)
            throw error
        }
        (readEnd, writeEnd) = (ends[0], ends[1])
        self.connection = Mutex(connection)
    }

    /// Starts the process with its descriptors, and passes its messages on until its end.
    func serve(_ start: (_ input: Int32, _ output: Int32) throws(CryptokiError) -> pid_t)
        throws(CryptokiError) -> pid_t
    {
        defer {
            close(writeEnd)
            // Without a process, this ends at once.
            if !BlockingThread.start({ self.passOn() }) { end() }
        }
        return try start(connection.withLock(\.self) ?? -1, writeEnd)
    }

    /// Ends the connection. The process has ended; a child of it may still have the descriptors.
    func hangUp() {
        connection.withLock { descriptor in
            if let descriptor { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    private func passOn() {
        var messages = RemoteMessages()
        var packet = [UInt8](repeating: 0, count: RemoteMessages.maximumPacketBytes)
        while true {
            let count = read(readEnd, &packet, packet.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            let bytes = packet[..<count]
            if messages.contains(bytes) {
                guard send(bytes) else { break }
            } else {
                _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
            }
        }
        end()
    }

    /// - Returns: false if the client has closed the connection.
    private func send(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let descriptor = connection.withLock(\.self) else { return false }
        return Poll.send(bytes, to: descriptor)
    }

    private func end() {
        close(readEnd)
        if let descriptor = connection.withLock({ $0.take() }) { close(descriptor) }
    }
}

/// Tells the messages of p11-kit's protocol from other writes to the same descriptor.
///
/// A message is a header of 12 bytes and two parts, each in a write of its own. The header's first
/// number is the code of the call, which is small, so that no text begins like a header.
struct RemoteMessages {
    /// The largest packet of a pipe, `PIPE_BUF`. Larger writes are several packets.
    static let maximumPacketBytes = 4096

    private var hasVersion = false
    /// The sizes of the parts of the current message that have not come yet.
    private var parts: [Int] = []

    /// Whether the next packet is part of a message.
    mutating func contains(_ packet: ArraySlice<UInt8>) -> Bool {
        if let size = parts.first {
            guard packet.count == min(size, Self.maximumPacketBytes) else { return false }
            parts[0] -= packet.count
        } else if !hasVersion {
            // The version of the protocol comes once before all messages.
            guard packet.count == 1, packet.first.map({ $0 < 8 }) ?? false else { return false }
            hasVersion = true
        } else {
            guard packet.count == 12, packet.starts(with: [0, 0]) else { return false }
            parts = [packet.dropFirst(4).prefix(4), packet.suffix(4)].map {
                $0.reduce(0) { $0 << 8 | Int($1) }
            }
        }
        while parts.first == 0 { parts.removeFirst() }
        return true
    }
}
