import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Three server processes that share a PostgreSQL database, a configuration and a signing key file,
/// and nothing else. Clients reach them directly: no proxy hides a lost answer.
actor Fleet {
    static let size = 3
    /// The origin of all instances for their clients.
    private static let origin = "https://id.example.com"

    private let directory: TemporaryDirectory
    private let arguments: [String]
    /// The port of each instance, also after it is started again.
    let ports: [String]
    private var instances: [IdentityProcess] = []

    /// - Parameter address: The address of an empty database.
    private init(on address: String) async throws {
        let directory = try TemporaryDirectory()
        self.directory = directory
        let configuration = directory.path(of: "config.json")
        try Data(
            """
            {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}],
             "public_origin": "\(Self.origin)"}
            """.utf8
        ).write(to: URL(filePath: configuration))
        arguments = [
            "--config", configuration, "--database", address, "--log-level", "critical",
            "--signing-key-file", try IdentityProcess.signingKeyFile(in: directory),
        ]
        ports = try await Self.freePorts(Self.size)
        _ = try await TestDatabase.open(address, connections: 1)
    }

    /// Ports that no program uses.
    private static func freePorts(_ count: Int) async throws -> [String] {
        let script = """
            import socket
            ends = [socket.create_server(('127.0.0.1', 0)) for _ in range(\(count))]
            print(*[end.getsockname()[1] for end in ends])
            """
        let outcome = try await SystemProgram("/usr/bin/python3").result(of: ["-c", script])
        return outcome.output.split { $0.isWhitespace }.map(String.init)
    }

    /// Runs `fault` with a fleet while clients use it, then checks that every confirmed device can
    /// log in.
    ///
    /// - Parameter address: The address of an empty database.
    static func run(
        on address: String, clients count: Int = 8,
        fault: (_ fleet: Fleet, _ load: FleetLoad) async throws -> Void
    ) async throws {
        let fleet = try await Fleet(on: address)
        try await withTeardown({ await fleet.stop() }) {
            try await fleet.start()
            let load = FleetLoad()
            let devices = try await Self.devices(count, on: address)
            let clients = devices.enumerated().map {
                FleetClient($0.offset, with: $0.element, of: fleet, load)
            }
            try await TestDevice.$issuer.withValue(origin) {
                try await load.run(clients) { try await fault(fleet, load) }
            }
        }
    }

    private func start() async throws {
        for port in ports {
            instances.append(try await IdentityProcess(arguments + ["--port", port]))
        }
    }

    private func stop() async {
        await withTaskGroup(of: Void.self) { group in
            for instance in instances { group.addTask { _ = await instance.stop() } }
        }
    }

    /// Kills an instance and starts it again.
    func kill(_ number: Int) async throws {
        let status = await instances[number].stop(SIGKILL)
        #expect(status == SIGKILL, "the instance ended before it was killed")
        instances[number] = try await IdentityProcess(arguments + ["--port", ports[number]])
    }

    /// Adds users with one device each.
    private static func devices(_ count: Int, on address: String) async throws -> [TestDevice] {
        let services = try await IdentityServices(
            TestServer.configuration,
            database: TestDatabase.open(address, connections: 1),
            hasher: PasswordHasher(logRounds: 4),
            signingKeyCipher: SigningKeyCipher.test())
        var devices: [TestDevice] = []
        for number in 0..<count {
            let user = try await services.users.add(
                username: "user\(number)", password: TestServer.password)
            let device = TestDevice()
            try await services.devices.add(device.registered(to: user.id, at: services.clock.now))
            devices.append(device)
        }
        return devices
    }
}

extension TestDevice {
    /// The device as a server stores it.
    fileprivate func registered(to userID: String, at time: Date) throws -> RegisteredDevice {
        let jwk = try JSONDecoder().decode(JWK.self, from: JSONEncoder().encode(self.jwk))
        return RegisteredDevice(
            kid: try #require(KeyID(rawValue: kid)), userID: userID,
            key: try #require(DevicePublicKey(jwk)),
            info: try #require(DeviceInfo(Self.deviceInfo)), createdAt: time)
    }
}
