import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// One user's machine and a server: a separate store and hardware, in which programs start and end.
/// The test needs the trait `.softwareTPM`, or `.softwareToken` for a token.
struct Scene: Sendable {
    /// The payloads of the assertions that were sent, in order.
    var assertionsSent: [String] {
        line.sent.compactMap { request in
            let form = FormEncoding.decode(request.body)?["assertion"]
            let json = try? JSONDecoder().decode(
                [String: String].self, from: Data(request.body.utf8))["assertion"]
            return (form ?? json).flatMap { try? ReceivedJWS($0) }.map {
                String(decoding: $0.payloadJSON, as: UTF8.self)
            }
        }
    }

    let directory: TemporaryDirectory
    let hardware: SimulatedDevice
    let server: IdentityProcess
    let channel: FormChannel
    let line = Line()
    let clock = SettableClock()
    let log = LogSink()
    /// The correct PIN.
    let pin: String
    private let tcti: String
    private let tokenURI: String?

    /// Runs a server during `body`.
    ///
    /// - Parameters:
    ///   - locker: Members of the server's configuration of the locker.
    ///   - client: Members of the client's configuration.
    static func with(
        on device: SimulatedDevice = .tpm, locker: [String: any Sendable] = [:],
        client: [String: any Sendable] = [:], _ body: (Scene) async throws -> Void
    ) async throws {
        try await IdentityProcess.with(client: client, ["extensions": ["locker": locker]]) {
            server in
            let scene = try Scene(on: device, server)
            try await body(scene)
            scene.line.release()
        }
    }

    private init(on device: SimulatedDevice, _ server: IdentityProcess) throws {
        directory = try TemporaryDirectory()
        hardware = device
        self.server = server
        channel = FormChannel(try #require(server.users.first))
        switch device {
        case .tpm: (tcti, tokenURI, pin) = (try SoftwareTPM.current.tcti, nil, "2468")
        case .token:
            let token = try SoftwareToken.current
            (tcti, tokenURI, pin) = ("", token.uri, token.userPIN)
        }
    }

    var databasePath: String { directory.path(of: "default/latchkey.sqlite") }

    /// A program after its start.
    ///
    /// - Parameters:
    /// - presence: Answers prompts; nil for a user who knows the PIN.
    ///   - change: Changes the configuration.
    func start(
        _ presence: ScriptedPresence? = nil, directory: String? = nil,
        _ change: (inout LockerConfiguration) -> Void = { _ in }
    ) async throws -> Program {
        let store = try await RecordStore(directory: directory ?? self.directory.path)
        let hardware: any Keystore =
            if let tokenURI { try PKCS11Keystore(uri: tokenURI) } else {
                TPMKeystore(tcti: tcti, anchors: store)
            }
        let steps = Steps()
        let keystore = WatchedKeystore(hardware, steps: steps)
        let presence = presence ?? ScriptedPresence(Array(repeating: .pin(pin), count: 64))
        let clock = clock
        var configuration = LockerConfiguration(
            issuer: server.endpoint, clientID: server.clientID,
            records: try RecordContainer(store: store, keystore: keystore), presence: presence,
            channel: channel,
            transport: SteppedTransport(line: line, steps: steps), logger: log, now: { clock.now })
        change(&configuration)
        let locker = try Locker(configuration)
        try await locker.open()
        return Program(locker: locker, keystore: keystore, presence: presence, steps: steps)
    }

    /// A copy of the current store, for another program.
    func copyStore() throws -> TemporaryDirectory { try directory.copyOfStore() }
}

/// A program that uses the locker.
struct Program: Sendable {
    let locker: Locker
    let keystore: WatchedKeystore
    let presence: ScriptedPresence
    let steps: Steps

    var phase: SessionPhase { locker.authSessionStatus.phase }

    /// The secrets that can be encrypted in the current status, by level.
    func sealAll(_ secret: String = "s3cret") -> [ProtectionLevel: String] {
        var texts: [ProtectionLevel: String] = [:]
        for level in ProtectionLevel.allCases {
            texts[level] = try? locker.encrypt(secret: secret, protectionLevel: level)
        }
        return texts
    }

    /// The levels of the texts that decrypt to `secret` now.
    func readable(_ texts: [ProtectionLevel: String], _ secret: String = "s3cret") -> Set<
        ProtectionLevel
    > {
        Set(texts.filter { (try? locker.decrypt(encryptedSecret: $0.value)) == secret }.keys)
    }
}

/// An error to compare with: errors are equal when their codes are.
func refusal(_ code: ErsteGroupAuthError.Code) -> ErsteGroupAuthError {
    ErsteGroupAuthError(code: code, reason: "", recovery: "")
}
