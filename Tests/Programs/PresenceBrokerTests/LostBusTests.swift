import Glibc
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeySimulators
import Testing

/// The end of the connection to the bus.
struct LostBusTests {
    @Test(.timeLimit(.minutes(15))) func `what is asked of a connection that is gone is refused`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "bus")
            let listener = try Self.listen(at: path)
            defer { close(listener) }
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            let bus = try await Bus.system(at: "unix:path=\(path)") { end.finish() }
            let connection = accept(listener, nil, nil)
            try #require(connection >= 0)
            endSocket(connection)
            for await _ in ends {}

            let target = BusTarget(
                "org.example.Nobody", "/org/example", "org.example.Nobody", "Speak")
            await #expect(throws: BusError.closed) {
                try await bus.serve { _ in .answer(.success([])) }
            }
            await #expect(throws: BusError.closed) { try await bus.own("org.example.Nobody") }
            await #expect(throws: BusError.closed) { try await bus.signal(target, []) }
            await #expect(throws: BusError.closed) { _ = try await bus.call(target) }
        }
    }

    static func listen(at path: String) throws -> Int32 {
        let listener = try #require(try UNIXSocketAddress(path: path)?.boundSocket())
        try #require(Glibc.listen(listener, 1) == 0)
        return listener
    }
}
