import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM

/// Measures logins with a key at `latchkey-identity` over HTTP: the time besides the signature and
/// the requests, and the time of concurrent logins.
struct Authentications {
    let rounds: Int
    let crowds: [Int]

    private struct Server: Decodable {
        struct User: Decodable {
            let username: String
            let password: String
        }

        let endpoint: String
        let clientID: String
        let users: [User]
    }

    /// A user's device.
    private struct Device {
        let keystore: TPMKeystore
        let store: RecordStore
        let server: Server
        let requests = Waiting()

        /// An enrolled program on the device.
        func container(_ name: String) async throws -> Container {
            guard let user = server.users.first else {
                throw Failure(reason: "the server has no users")
            }
            let records = try RecordContainer(name: name, store: store, keystore: keystore)
            let configuration = ContainerConfiguration(
                endpoint: server.endpoint, clientID: server.clientID, policy: .pin)
            let container = try Container(
                configuration, records: records, presence: PromptPresence(),
                browser: LoginBrowser(username: user.username, password: user.password),
                transport: MeasuredTransport(inner: CurlTransport(), waiting: requests))
            try await container.authorize()
            try await container.enableBiometric()
            try await container.authenticateBiometric()
            return container
        }

        /// Concurrent signatures by a key like those of the containers: the time of each.
        func signatures(_ crowd: Int) async throws -> Duration {
            let prompt = PromptContext(reason: "measure")
            let presence = PromptPresence()
            let key = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence)
            let digest = MessageDigest(sha256: [1])
            let start = ContinuousClock.now
            try await withThrowingTaskGroup { group in
                for _ in 0..<crowd {
                    group.addTask {
                        _ = try await keystore.sign(
                            digest, with: key, for: prompt, authorizedBy: presence)
                    }
                }
                try await group.waitForAll()
            }
            return (ContinuousClock.now - start) / crowd
        }
    }

    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let configuration = directory.path(of: "config.json")
            try Data(Self.configuration.utf8).write(to: URL(filePath: configuration))
            let arguments = [
                "serve", "--demo", "--config", configuration, "--log-level", "critical",
            ]
            return try await Program.built("latchkey-identity").serving(arguments, printsLine: true)
            { _, line in
                let store = try await RecordStore(directory: directory.path(of: "store"))
                let device = Device(
                    keystore: TPMKeystore(tcti: tpm.tcti, anchors: store), store: store,
                    server: try JSONDecoder().decode(Server.self, from: line))
                var findings = try await alone(device)
                findings += try await crowded(device)
                return findings
            }
        }
    }

    /// Sequential logins, in turn with signatures: the time of each without a signature and the
    /// requests.
    private func alone(_ device: Device) async throws -> Findings {
        let container = try await device.container("alone")
        var (whole, signature, requests) = (Samples(), Samples(), Samples())
        for round in -3..<rounds {
            if round == 0 { (whole, signature, requests) = (Samples(), Samples(), Samples()) }
            _ = device.requests.take()
            try await whole.measure { _ = try await container.authenticateBiometric() }
            let sent = device.requests.take()
            guard sent.calls == 3 else {
                throw Failure(reason: "a login took \(sent.calls) requests")
            }
            requests.add(sent.time)
            signature.add(try await device.signatures(1))
        }
        let rest = whole.median - signature.median - requests.median
        return Findings(rows: [
            Row(
                "`authenticate` above the signature and 3 requests", rest.milliseconds, "ms",
                atMost: 6,
                note: [whole, signature, requests].map(\.median.text).joined(separator: " − "))
        ])
    }

    /// Concurrent logins, each with its own container: the time of each.
    private func crowded(_ device: Device) async throws -> Findings {
        var containers: [Container] = []
        for number in 0..<(crowds.max() ?? 0) {
            containers.append(try await device.container("c\(number)"))
        }
        var logins: [(Double, Double)] = []
        var signatures: [(Double, Double)] = []
        for crowd in crowds {
            var (whole, signing) = (Samples(), Samples())
            for _ in 0..<max(rounds / 10, 3) {
                let start = ContinuousClock.now
                try await withThrowingTaskGroup { group in
                    for container in containers.prefix(crowd) {
                        group.addTask { _ = try await container.authenticateBiometric() }
                    }
                    try await group.waitForAll()
                }
                whole.add((ContinuousClock.now - start) / crowd)
                signing.add(try await device.signatures(crowd))
            }
            logins.append((Double(crowd), whole.median.milliseconds))
            signatures.append((Double(crowd), signing.median.milliseconds))
        }
        let title = "Logins at once on one TPM, time for each"
        return Findings(plots: [
            Plot(
                file: "logins", title: title, x: "logins at once", y: "ms for each",
                series: [
                    .init(name: "authenticateBiometric", points: logins),
                    .init(name: "the signature alone", points: signatures),
                ])
        ])
    }

    private static let configuration = """
        {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}]}
        """
}
