import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// HTTP status codes that no server may send.
@Suite(.requires(program: "python3"), .timeLimit(.minutes(15)))
struct InvalidStatusCommandTests {
    /// Answers each connection with the next status.
    private static let server = #"""
        import socket, sys
        statuses = sys.argv[1].split(',')
        listener = socket.create_server(('127.0.0.1', 0))
        print(listener.getsockname()[1], flush=True)
        for status in statuses:
            end, _ = listener.accept()
            end.recv(65536)
            end.sendall(('HTTP/1.1 %s Status\r\nContent-Length: 2\r\n\r\n{}' % status).encode())
            end.close()
        """#
    private static let statuses = [
        "000", "001", "099", "0", "99", "101", "600", "999", "1000", "-1", "", "2x0",
    ]

    @Test func `an invalid status is refused and does not end the program`() async throws {
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            ["-c", Self.server, Self.statuses.joined(separator: ",")])
        let port = await server.output { _ in true }.trimmingCharacters(in: .whitespacesAndNewlines)
        var machine = try Machine(tcti: nil)
        machine.environment["LATCHKEY_ENDPOINT"] = "http://127.0.0.1:\(port)"
        machine.environment["LATCHKEY_CLIENT_ID"] = "app"
        for status in Self.statuses {
            let outcome = try await machine.run("login", "--json")
            #expect(outcome.status == 7, "\(status): \(outcome.errors)")
        }
        await server.stop(SIGKILL)
    }
}
