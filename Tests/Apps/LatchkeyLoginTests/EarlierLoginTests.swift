import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTesting
import Synchronization
import Testing

/// Stores of versions that stored no server with a login.
@Suite(.softwareTPM) struct EarlierLoginTests {
    private func earlier(_ bench: Bench) async throws -> KeyID {
        let container = try await bench.start()
        try await container.authorize()
        let kid = try await container.enableBiometric().id
        try await bench.forgetServers()
        #expect(try await ContainerStatus(of: bench.records()).server == nil)
        return kid
    }

    @Test func `without a confirmation nothing is used`() async throws {
        try await Bench.with { bench in
            let kid = try await earlier(bench)
            for operation in ContainerOperation.allCases {
                let wire = RecordingTransport(forwardingTo: bench.identity)
                let presence = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 4))
                let container = try await bench.start(presence: presence, transport: wire)
                await #expect(throws: login(.conflict), "\(operation)") {
                    try await operation.run(container)
                }
                #expect(wire.recordings.isEmpty && presence.requests.isEmpty, "\(operation)")
            }
            #expect(try await ContainerStatus(of: bench.records()).key?.id == kid)
        }
    }

    @Test(arguments: ContainerOperation.allCases)
    func `after a confirmation the login works, and the rows name the server`(
        operation: ContainerOperation
    ) async throws {
        try await Bench.with { bench in
            _ = try await earlier(bench)
            let asked = Mutex<[LoginServer]>([])
            let container = try await bench.start(bindsEarlierLogin: { server in
                asked.withLock { $0.append(server) }
                return true
            })
            try await operation.run(container)
            let servers = asked.withLock(\.self)
            #expect(servers.map(\.address) == [FakeIdentity.address])
            #expect(servers.map(\.clientID) == ["app"])
            let other = try await bench.start(
                transport: RecordingTransport(), endpoint: ImpersonatingTransport.address)
            if operation != .logout {
                await #expect(throws: login(.conflict)) { try await other.logout() }
                if operation == .logoutKeepingKey {
                    try await bench.start().authenticateBiometric()
                }
                try await bench.start().logout()
            }
            #expect(await bench.identity.identities.isEmpty)
        }
    }

    @Test
    func `a confirmation of the wrong server is not believed if an ID token names the right one`()
        async throws
    {
        try await Bench.with { bench in
            _ = try await earlier(bench)
            for (endpoint, clientID) in [
                (ImpersonatingTransport.address, "app"), (FakeIdentity.address, "other"),
            ] {
                let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(bench.identity))
                let container = try await bench.start(
                    transport: wire, endpoint: endpoint, clientID: clientID,
                    bindsEarlierLogin: { _ in true })
                let error = await #expect(throws: LoginError.self) { try await container.logout() }
                #expect(error?.code == .conflict)
                #expect(
                    error?.reason.contains("belongs to ‘https://identity.test’ (client ‘app’)")
                        == true)
                #expect(wire.recordings.isEmpty)
            }
            #expect(try await ContainerStatus(of: bench.records()).server == nil)
        }
    }

    @Test func `force removes the login without a confirmation or a request`() async throws {
        try await Bench.with { bench in
            _ = try await earlier(bench)
            let wire = RecordingTransport(forwardingTo: bench.identity)
            try await bench.start(transport: wire).logout(force: true)
            #expect(wire.recordings.isEmpty)
            #expect(try await ContainerStatus(of: bench.records()).sessionState == .noSession)
        }
    }
}
