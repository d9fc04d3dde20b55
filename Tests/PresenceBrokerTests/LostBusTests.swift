import Glibc
import LatchkeyPresence
import LatchkeySimulators
import Testing

/// The end of the connection to the bus.
struct LostBusTests {
    @Test(.timeLimit(.minutes(15))) func `what is asked of a connection that is gone is refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "bus")
            let listener = try Self.listen(at: path)
            defer { close(listener) }
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            let bus = try await Bus.system(at: "unix:path=\(path)") { end.finish() }
            let connection = accept(listener, nil, nil)
            try #require(connection >= 0)
            close(connection)
            for await _ in ends {}

            let target = BusTarget("org.example.Nobody", "/org/example", "org.example.Nobody", "Speak")
            await #expect(throws: BusError.closed) { try await bus.serve("/org/example") { _ in .success([]) } }
            await #expect(throws: BusError.closed) { try await bus.own("org.example.Nobody") }
            await #expect(throws: BusError.closed) { try await bus.signal(target, []) }
            await #expect(throws: BusError.closed) { _ = try await bus.call(target) }
        }
    }

    static func listen(at path: String) throws -> Int32 {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        try #require(listener >= 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        try #require(path.utf8.count < MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0 && Glibc.listen(listener, 1) == 0)
        return listener
    }
}
