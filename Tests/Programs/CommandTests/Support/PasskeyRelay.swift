import Foundation
import Glibc
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// A relay of this process in place of `latchkey-uhid`: the packets of all programs with the
/// device.
enum PasskeyRelay {
    /// Runs `body` with a service and its connection to a relay of this process.
    ///
    /// - Parameter command: The words before the service's options.
    static func withService(
        _ command: [String] = [Products.latchkey.string, "passkey", "serve"],
        extra: [String: String] = [:],
        _ body: (RunningProgram, Int32) async throws -> Void
    ) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        defer { withExtendedLifetime(machine) {} }
        let path = machine.directory.path(of: "relay")
        let listener = socket(
            AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(listener) }
        let address = try #require(UNIXSocketAddress(path: path))
        try #require(address.withPointer { bind(listener, $0, $1) } == 0)
        try #require(listen(listener, 1) == 0)
        var variables = machine.environment.merging(extra) { $1 }
        variables["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=\(machine.directory.path(of: "no-bus"))"
        let service = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            variables.map { "\($0.key)=\($0.value)" } + command + [
                "--relay", path, "--pin-source", "pinentry",
            ])
        try await withTeardown({ await service.stop(SIGKILL) }) {
            let connection = await connection(to: listener)
            let relay = try #require(connection)
            // Closing the connection ends the service.
            defer { close(relay) }
            try await body(service, relay)
        }
    }

    /// Opens a channel of the device, with CTAPHID_INIT on the broadcast channel and a nonce of 8
    /// bytes.
    ///
    /// - Returns: The channel's four bytes.
    @discardableResult
    static func openChannel(_ relay: Int32) async throws -> [UInt8] {
        let broadcast = [UInt8](repeating: 0xFF, count: 4)
        let nonce = [UInt8](repeating: 7, count: 8)
        send(nonce, 0x06, on: broadcast, relay)
        let answer = await packet(from: relay) {
            $0.starts(with: broadcast + [0x86, 0, 17] + nonce)
        }
        try #require(answer.count == 64)
        return Array(answer[15..<19])
    }

    /// Waits for a connection, on another thread. nil if the service ends or does not connect
    /// within `hangLimit`.
    private static func connection(to listener: Int32) async -> Int32? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let isReadable = try? Poll.wait(for: listener, POLLIN, until: .now + hangLimit)
                continuation.resume(
                    returning: isReadable == true ? accept(listener, nil, nil) : nil)
            }
        }
    }

    /// Sends a message, in as many packets as it needs.
    static func send(
        _ message: [UInt8], _ command: UInt8, on channel: [UInt8], _ relay: Int32
    ) {
        var rest = message[...]
        var packet =
            channel + [command | 0x80, UInt8(message.count >> 8), UInt8(message.count & 0xFF)]
        for sequence in UInt8(0)... {
            let count = 64 - packet.count
            packet += rest.prefix(count)
            packet += [UInt8](repeating: 0, count: 64 - packet.count)
            _ = Glibc.send(relay, packet, packet.count, Int32(MSG_NOSIGNAL))
            rest = rest.dropFirst(count)
            guard !rest.isEmpty else { return }
            packet = channel + [sequence]
        }
    }

    /// The next packet that fulfils a condition, read on another thread; empty if there is none
    /// within `hangLimit`.
    static func packet(
        from relay: Int32, _ fulfils: @escaping @Sendable ([UInt8]) -> Bool
    ) async -> [UInt8] {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let deadline = ContinuousClock.now + hangLimit
                while (try? Poll.wait(for: relay, POLLIN, until: deadline)) == true {
                    var packet = [UInt8](repeating: 0, count: 100)
                    let count = recv(relay, &packet, packet.count, 0)
                    guard count > 0 else { break }
                    let received = Array(packet.prefix(count))
                    if fulfils(received) { return continuation.resume(returning: received) }
                }
                continuation.resume(returning: [])
            }
        }
    }
}
