import Foundation  // Thread
import Glibc
import LatchkeyPasskeys
import LatchkeyPlatform
import Synchronization
import Testing

/// A UNIX socket in place of /dev/hidraw: each program that has connected sends packets of 64
/// bytes, and reads every packet of the device, as with hidraw.
final class PacketNode: Sendable {
    private let clients = Mutex<Set<Int32>>([])
    private let sent = Mutex<[[UInt8]]>([])
    private let listener: Int32
    let path: String

    /// The packets that the device has sent.
    var packets: [[UInt8]] { sent.withLock { $0 } }

    init(path: String) throws {
        self.path = path
        let address = try #require(UNIXSocketAddress(path: path))
        listener = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        try #require(address.withPointer { bind(listener, $0, $1) } == 0)
        try #require(listen(listener, 8) == 0)
    }

    /// Serves a device until the node is closed.
    func serve(_ authenticator: Authenticator, clock: PasskeyClock) -> PasskeyHIDDevice {
        let device = PasskeyHIDDevice(authenticator, clock: clock) { self.broadcast($0) }
        let (packets, sink) = AsyncStream.makeStream(of: [UInt8].self)
        Task { for await packet in packets { await device.receive(packet) } }
        Thread.detachNewThread {
            while true {
                let client = accept(self.listener, nil, nil)
                guard client >= 0 else { break }
                self.clients.withLock { _ = $0.insert(client) }
                Thread.detachNewThread { self.read(client, sink) }
            }
            Glibc.close(self.listener)
            sink.finish()
        }
        return device
    }

    func close() {
        // accept(2) fails after this, and the accepting thread closes the descriptor.
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private func read(_ client: Int32, _ sink: AsyncStream<[UInt8]>.Continuation) {
        var buffer = [UInt8](repeating: 0, count: 128)
        while true {
            let count = recv(client, &buffer, buffer.count, 0)
            guard count > 0 else { break }
            sink.yield(Array(buffer[..<count]))
        }
        clients.withLock { _ = $0.remove(client) }
        Glibc.close(client)
    }

    private func broadcast(_ packet: [UInt8]) {
        sent.withLock { $0.append(packet) }
        clients.withLock { clients in
            for client in clients { _ = send(client, packet, packet.count, Int32(MSG_NOSIGNAL)) }
        }
    }
}
