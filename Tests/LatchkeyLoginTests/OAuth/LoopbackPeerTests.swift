import Glibc
import LatchkeyHTTP
import NIOCore
import Testing

@testable import LatchkeyOAuth

struct LoopbackPeerTests {
    private func peer() throws -> LoopbackPeer {
        try #require(
            LoopbackPeer(
                client: SocketAddress(ipAddress: "127.0.0.1", port: 33_558),
                server: SocketAddress(ipAddress: "127.0.0.1", port: 45_497)))
    }

    /// A row as the kernel prints it on a little-endian machine; the defaults are those of the peer's.
    private func row(
        _ own: String = "0100007F:8316", _ other: String = "0100007F:B1B9", state: String = "01", uid: String = "1000",
        inode: String = "1234172"
    ) -> String {
        "   6: \(own) \(other) \(state) 00000000:00000000 00:00000000 00000000  \(uid)        0 \(inode) 2 00 20 0 0 10 -1\n"
    }

    private func owner(inRow row: String) throws -> uid_t? {
        guard let socket = TCPSocket(row: row), try peer().isClient(socket) else { return nil }
        return socket.user
    }

    @Test(.enabled(if: Int(littleEndian: 1) == 1, "the rows are a little-endian machine's"))
    func `the row of the other end names its owner, and no other row does`() throws {
        #expect(try owner(inRow: row()) == 1000)
        let mapped = "0000000000000000FFFF0000"
        #expect(try owner(inRow: row("\(mapped)0100007F:8316", "\(mapped)0100007F:B1B9")) == 1000)
        for other in [
            row("0100007F:B1B9", "0100007F:8316"), row("0200007F:8316"), row("0100007F:8317"),
            row("0100007F:8316", "0100007F:B1BA"), row("00000000000000000000000000000000:8316"), row(uid: "-1"),
            row(uid: "4294967296"), row(uid: "x"), "", "\n", "  sl  local_address rem_address   st", "6: 0100007F:8316",
        ] {
            #expect(try owner(inRow: other) == nil, "\(other)")
        }
    }

    /// The kernel shows root as the owner of a socket that was closed.
    @Test(arguments: ["04", "05", "06", "07", "08", "0A"])
    func `a socket that may be closed has no owner`(state: String) throws {
        #expect(try owner(inRow: row(state: state, uid: "0")) == nil)
        #expect(try owner(inRow: row(uid: "0", inode: "0")) == nil)
    }

    @Test func `a connection that does not exist is another user's, and IPv6 is not supported`() throws {
        let missing = LoopbackPeer(
            client: try SocketAddress(ipAddress: "127.0.0.1", port: 1),
            server: try SocketAddress(ipAddress: "127.0.0.1", port: 2))
        #expect(missing?.owner == .otherUser)
        #expect(LoopbackPeer(client: try SocketAddress(ipAddress: "::1", port: 1), server: nil) == nil)
    }
}
