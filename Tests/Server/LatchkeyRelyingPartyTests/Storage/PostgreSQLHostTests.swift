import FoundationEssentials
import Glibc
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// Addresses with several hosts.
@Suite(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLHostTests {
    /// A TCP port that does not answer. Its queue of connections is full, as for a machine without
    /// power, or has space, as for a server that hangs.
    private final class SilentPort {
        let number: UInt16
        private let descriptors: [Int32]

        init(accepts: Bool) throws {
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            var results: [Int32] = []
            var descriptors = [listener]
            withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    results = [bind(listener, address, length), listen(listener, accepts ? 16 : 0)]
                    results.append(getsockname(listener, address, &length))
                    for _ in 0..<(accepts ? 0 : 4) {
                        let type =
                            SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
                        let client = socket(AF_INET, Int32(type), 0)
                        _ = connect(client, address, length)
                        descriptors.append(client)
                    }
                }
            }
            self.descriptors = descriptors
            number = UInt16(bigEndian: address.sin_port)
            try #require(results == [0, 0, 0])
        }

        deinit { for descriptor in descriptors { close(descriptor) } }
    }

    @Test(arguments: [false, true])
    func `a host that does not answer does not use up the time for the next one`(accepts: Bool)
        async throws
    {
        let silent = try SilentPort(accepts: accepts)
        defer { withExtendedLifetime(silent) {} }
        let single = try await PostgreSQLServer.shared.database()
        let folder = try await PostgreSQLServer.shared.folder.path
        let address =
            single.replacing("host=\(folder)", with: "host=127.0.0.1,\(folder)")
            + "&port=\(silent.number),5432"
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.connectionWait = .seconds(60)
        try await PostgreSQLDatabase(configuration).check()

        // The control: this host alone.
        configuration.address = "postgresql:///x?host=127.0.0.1&port=\(silent.number)&user=latchkey"
        configuration.connectionWait = .milliseconds(500)
        let database = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) { try await database.check() }
        #expect(failure?.code == .unavailable && failure?.isTemporary == true)
    }

    @Test func `an error names the failure of each host`() async throws {
        let address = "postgresql:///x?host=/nonexistent-1,/nonexistent-2&user=latchkey"
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.connectionWait = .milliseconds(500)
        let database = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) { try await database.check() }
        let message = try #require(failure?.message)
        #expect(
            message.contains("/nonexistent-1") && message.contains("/nonexistent-2"), "\(message)")
    }
}
