import Foundation
import Latchkey
import LatchkeyPlatform
import LatchkeySimulators
import Testing

@testable import latchkey_passkeys

struct RelayConnectionTests {
    @Test func `packets pass, and another message ends the connection`() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "relay")
        let listener = try listen(at: path)
        defer { close(listener) }
        let connection = try RelayConnection(path: path)
        let relay = accept(listener, nil, nil)
        defer { close(relay) }
        let packet = (0..<64).map { UInt8($0) }
        connection.send(packet)
        var buffer = [UInt8](repeating: 0, count: 100)
        #expect(recv(relay, &buffer, buffer.count, 0) == 64)
        #expect(Array(buffer.prefix(64)) == packet)
        #expect(send(relay, packet, 64, 0) == 64)
        #expect(connection.receive() == .packet(packet))
        #expect(send(relay, [0], 1, 0) == 1)
        #expect(connection.receive() == .disconnection)
        #expect(send(relay, packet, 63, 0) == 63)
        #expect(connection.receive() == nil)
    }

    @Test func `the errors name the next step`() throws {
        let directory = try TemporaryDirectory()
        let missing = try #require(throws: KeystoreError.self) {
            _ = try RelayConnection(path: directory.path(of: "none"))
        }
        #expect(missing.code == .unavailable)
        #expect(missing.reason.hasPrefix(directory.path(of: "none")))
        #expect(missing.recovery.contains("latchkey-passkeys"))
        #expect(missing.recovery.contains("systemctl start latchkey-uhid.socket"))
        let path = directory.path(of: "stale")
        let listener = try listen(at: path)
        endSocket(listener)
        let stale = try #require(throws: KeystoreError.self) { _ = try RelayConnection(path: path) }
        #expect(stale.recovery.contains("systemctl start latchkey-uhid.socket"))
    }

    private func listen(at path: String) throws -> Int32 {
        let listener = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let address = try #require(UNIXSocketAddress(path: path))
        #expect(address.withPointer { bind(listener, $0, $1) } == 0)
        #expect(Glibc.listen(listener, 5) == 0)
        return listener
    }
}
