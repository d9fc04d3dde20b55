import Glibc
import Latchkey
import LatchkeyPasskeys
import LatchkeyPlatform

/// The connection to the relay `latchkey-uhid`: messages of 64 bytes in both directions. The device
/// exists while it is open.
final class RelayConnection: Sendable {
    enum Message: Equatable {
        case packet([UInt8])
        /// The last program has closed the device. One byte.
        case disconnection
    }

    /// The relay's user.
    private static let user = "latchkey-uhid"
    private static let packetBytes = 64

    private let descriptor: Int32

    /// Connects, and checks that the relay's user or root listens: a process that took over the
    /// path could send requests.
    ///
    /// - Parameter path: Another socket, of this process's user, for tests.
    /// - Throws: `KeystoreError` with code `unavailable`.
    init(path: String? = nil) throws(KeystoreError) {
        let socketPath = path ?? HIDNode.relaySocket
        guard let address = UNIXSocketAddress(path: socketPath) else {
            throw .invalidInput(
                "the path of the relay's socket has more than \(UNIXSocketAddress.maximumPathBytes) bytes"
            )
        }
        do throws(SystemError) {
            descriptor = try address.connectedSocket(SOCK_SEQPACKET)
        } catch {
            throw Self.unavailable(error, socketPath)
        }
        let permitted = path == nil ? [0, Self.relayUser].compactMap(\.self) : [geteuid()]
        // With socket activation, the peer is the process that listened first: systemd.
        guard let peer = PeerCredentials(of: descriptor), permitted.contains(peer.user) else {
            throw KeystoreError(
                operation: "connect to the relay of passkeys", code: .unavailable,
                reason: "a process of another user listens at its socket",
                recovery:
                    "Ask an administrator to check \(socketPath) and the service latchkey-uhid.")
        }
    }

    deinit { close(descriptor) }

    /// Waits for the next message on the calling thread.
    ///
    /// - Returns: nil at the end of the connection, or for a message of another length.
    func receive() -> Message? {
        var packet = [UInt8](repeating: 0, count: Self.packetBytes + 1)
        while true {
            let count = recv(descriptor, &packet, packet.count, 0)
            if count < 0, errno == EINTR { continue }
            return switch count {
            case Self.packetBytes: .packet(Array(packet.prefix(count)))
            case 1: .disconnection
            default: nil
            }
        }
    }

    /// Sends a packet. A failure is the end of the connection, which ``receive()`` reports.
    func send(_ packet: [UInt8]) {
        _ = Glibc.send(descriptor, packet, packet.count, Int32(MSG_NOSIGNAL))
    }

    private static var relayUser: UInt32? { try? Account.userID(named: user) }

    private static func unavailable(_ reason: SystemError, _ path: String) -> KeystoreError {
        let start = "sudo systemctl start latchkey-uhid.socket"
        let recovery =
            switch reason.number {
            case EACCES:
                "Join the group latchkey (sudo usermod -aG latchkey $USER), then log in to this machine again."
            case ENOENT:
                "Install the package latchkey-passkeys, or start the relay's socket: \(start)."
            default: "Start the relay's socket: \(start)."
            }
        return KeystoreError(
            operation: "connect to the relay of passkeys", code: .unavailable,
            reason: "\(path): \(reason)", recovery: recovery)
    }
}
