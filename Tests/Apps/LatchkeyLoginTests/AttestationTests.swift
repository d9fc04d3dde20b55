import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// Proofs about keys, from a software TPM with an endorsement certificate to `latchkey-identity`,
/// both in processes of their own.
@Suite(
    .softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"),
    .timeLimit(.minutes(15)))
struct AttestationTests {
    /// A server that verifies proofs, and a machine with the test's TPM.
    struct Setting: Sendable {
        let server: IdentityProcess
        let directory: TemporaryDirectory
        let disclosures = Disclosures()

        func start(
            policy: AccessPolicy = .pin, agrees: Bool = true,
            transport: any HTTPTransport = CurlTransport(),
            wrapping wrap: @Sendable (any Keystore) -> any Keystore = { $0 }
        ) async throws -> Container {
            let store = try await RecordStore(directory: directory.path(of: "store"))
            let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: store)
            let disclosures = disclosures
            return try Container(
                ContainerConfiguration(
                    endpoint: server.endpoint, clientID: server.clientID, policy: policy,
                    disclosesHardware: { disclosure in
                        disclosures.texts.withLock { $0.append(disclosure.text) }
                        return agrees
                    }),
                records: try RecordContainer(
                    name: "default", store: store, keystore: wrap(keystore)),
                presence: ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 8)),
                browser: FormBrowser(server.users[0]), transport: transport)
        }
    }

    /// The texts that the user saw.
    final class Disclosures: Sendable {
        let texts = Mutex<[String]>([])
        var count: Int { texts.withLock { $0.count } }
    }

    /// - Parameter isHardware: Whether the server takes the software TPM's authority for a
    ///   manufacturer of hardware too. Then it accepts no simulators.
    func with(
        require: String, isHardware: Bool = false, _ body: @Sendable (Setting) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let anchors = directory.path(of: "anchors")
        for kind in isHardware ? ["simulated", "tpm"] : ["simulated"] {
            for (folder, file) in [
                ("roots", tpm.rootCertificatePath),
                ("intermediates", tpm.stateDirectory + "/ca/issuercert.pem"),
            ] {
                let folder = "\(anchors)/\(kind)/\(folder)"
                try FileManager.default.createDirectory(
                    atPath: folder, withIntermediateDirectories: true)
                try FileManager.default.copyItem(atPath: file, toPath: folder + "/ca.pem")
            }
        }
        let attestation: [String: Any] = [
            "require": require, "anchors": anchors, "accept_simulated": !isHardware,
        ]
        try await IdentityProcess.with(["attestation": attestation]) { server in
            try await body(Setting(server: server, directory: directory))
        }
    }

    /// The requests that mention an attestation.
    func attesting(_ wire: RecordingTransport) -> [String] {
        wire.summary.filter { $0.contains("attestation") }
    }

    @Test func `a server that announces nothing gets nothing, and is asked nothing new`()
        async throws
    {
        try await IdentityProcess.with { server in
            let setting = Setting(server: server, directory: try TemporaryDirectory())
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(transport: wire)
            try await container.authorize()
            try await container.enableBiometric()
            #expect(attesting(wire).isEmpty)
            #expect(wire.recordings.allSatisfy { $0.request.path?.contains("client_id=") != true })
            let sent = try #require(wire.recordings.last)
            #expect(Set(sent.form.keys) == ["client_id", "grant_type", "jwt"])
            #expect(setting.disclosures.count == 0)
        }
    }

    @Test
    func
        `a server that requires nothing gets no certificate unless the user activated the TPM for it`()
        async throws
    {
        try await with(require: "none") { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(transport: wire)
            try await container.authorize()
            try await container.enableBiometric()
            #expect(attesting(wire).isEmpty && setting.disclosures.count == 0)
            #expect(try #require(wire.recordings.last).form["attestation"] == nil)
            try await container.disableBiometric()
            #expect(try await !container.activateAttestation().certificates.isEmpty)
            #expect(attesting(wire).count == 2 && setting.disclosures.count == 1)
            try await container.enableBiometric()
            let sent = wire.recordings.filter { $0.form["attestation"] != nil }
            #expect(sent.count == 1 && attesting(wire).count == 2 && setting.disclosures.count == 1)
        }
    }

    @Test func `a required proof activates the TPM once, tells the user once, and the key logs in`()
        async throws
    {
        try await with(require: "presence") { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(transport: wire)
            try await container.authorize()
            let key = try await container.enableBiometric()
            #expect(attesting(wire).count == 2)
            #expect(
                setting.disclosures.texts.withLock {
                    $0.first?.contains("identifies this machine permanently")
                } == true
            )
            // The endorsement certificate is sent in one request only.
            let keystore = TPMKeystore(
                tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
            let certificate = try #require(try await keystore.endorsementCertificates().first)
            let encoded = Base64URL.encode(certificate)
            let carriers = wire.recordings.filter { $0.text.contains(encoded) }
            #expect(
                carriers.count == 1 && carriers.first?.request.path == "/attestation/activation")
            try await container.disableBiometric()
            try await container.enableBiometric()
            #expect(attesting(wire).count == 2 && setting.disclosures.count == 1)
            try await container.logout(keepBiometric: true)
            let result = try await container.authenticateBiometric()
            #expect(result.keyID != key.id)
        }
    }

    @Test func `the certificate is renewed when two thirds of its time have passed`() async throws {
        try await with(require: "hardware") { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(transport: wire)
            try await container.authorize()
            _ = try await container.activateAttestation()
            #expect(attesting(wire).count == 2)
            _ = try await container.activateAttestation()
            #expect(attesting(wire).count == 2)
            let identity = try await TPMKeystore(
                tcti: SoftwareTPM.current.tcti,
                anchors: RecordStore(directory: setting.directory.path(of: "store"))
            ).attestationIdentity(for: setting.server.endpoint)
            #expect(!identity.needsActivation(at: Date() + 58 * 86_400))
            #expect(identity.needsActivation(at: Date() + 61 * 86_400))
        }
    }

    @Test func `without agreement nothing is sent and no key is created`() async throws {
        try await with(require: "hardware") { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(agrees: false, transport: wire)
            try await container.authorize()
            await #expect(throws: login(.refused)) { try await container.enableBiometric() }
            #expect(attesting(wire).isEmpty)
            #expect(try await container.listBiometricKeys().isEmpty)
        }
    }

    @Test(arguments: [("finger", AccessPolicy.pin), ("finger", .userPresence), ("touch", .pin)])
    func `a requirement that the key cannot meet is reported before a key exists`(
        level: String, policy: AccessPolicy
    ) async throws {
        try await with(require: level) { setting in
            let wire = RecordingTransport(forwardingTo: CurlTransport())
            let container = try await setting.start(policy: policy, transport: wire) {
                CreationCounter($0)
            }
            try await container.authorize()
            let error = await #expect(throws: login(.refused)) {
                try await container.enableBiometric()
            }
            #expect(
                level != "finger"
                    || error?.recoveryAction.actions == [.requireFinger])
            #expect(attesting(wire).isEmpty && setting.disclosures.count == 0)
            #expect(!wire.summary.contains("POST /oauth2/challenge"))
        }
    }

    @Test
    func
        `a TPM of an unknown maker is refused before a key exists, with the way to show its certificate`()
        async throws
    {
        try await with(require: "hardware") { setting in
            // The server trusts the test's TPM only. A forged certificate is like one of an unknown
            // maker.
            let container = try await setting.start { ForgedEndorsement(keystore: $0) }
            try await container.authorize()
            let error = await #expect(throws: login(.refused)) {
                try await container.enableBiometric()
            }
            #expect(
                error?.recoveryAction.actions == [.showAttestation],
                "\(String(describing: error))")
            // The session is not ended.
            #expect(try await container.fetchUserInfo().userID == container.lastUserID)
        }
    }

    @Test func `a simulated TPM is refused unless the operator accepts simulators`() async throws {
        try await with(require: "hardware", isHardware: true) { setting in
            let container = try await setting.start()
            try await container.authorize()
            let error = await #expect(throws: login(.refused)) {
                try await container.enableBiometric()
            }
            #expect(
                error?.recovery.contains("hardware TPM") == true, "\(String(describing: error))")
        }
    }

    @Test func `a replayed statement is refused, and the session goes on`() async throws {
        try await with(require: "hardware") { setting in
            let earlier = Earlier()
            let container = try await setting.start {
                ReplayingKeystore(keystore: $0, earlier: earlier)
            }
            try await container.authorize()
            try await container.enableBiometric()
            try await container.disableBiometric()
            let error = await #expect(throws: login(.refused)) {
                try await container.enableBiometric()
            }
            #expect(error?.reason.contains("malformed") == true, "\(String(describing: error))")
            #expect(try await container.fetchUserInfo().userID == container.lastUserID)
            #expect(try await container.listBiometricKeys().isEmpty)
        }
    }

    @Test func `two servers get two attestation keys, and forgetting one makes a new one`()
        async throws
    {
        let store = try TemporaryDirectory()
        let keystore = try await TPMKeystore(
            tcti: SoftwareTPM.current.tcti, anchors: RecordStore(directory: store.path(of: "store"))
        )
        let first = try await keystore.attestationIdentity(for: "https://a.example")
        let second = try await keystore.attestationIdentity(for: "https://b.example")
        #expect(first.attestationKey != second.attestationKey)
        #expect(first.endorsementCertificates == second.endorsementCertificates)
        try await keystore.forgetAttestation(for: "https://a.example")
        #expect(try await keystore.attestationIssuers() == ["https://b.example"])
        #expect(
            try await keystore.attestationIdentity(for: "https://a.example").attestationKey
                != first.attestationKey)
    }
}

/// A keystore that creates no key.
private struct CreationCounter: KeystoreWrapper {
    let keystore: any Keystore

    init(_ keystore: any Keystore) { self.keystore = keystore }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey { throw .invalidInput("a key was requested") }

    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey { throw .invalidInput("a key was requested") }
}

/// A keystore whose certificates have wrong signatures.
private struct ForgedEndorsement: KeystoreWrapper {
    let keystore: any Keystore

    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity
    {
        let identity = try await keystore.attesting().attestationIdentity(for: issuer)
        let certificates = identity.endorsementCertificates.map {
            $0.dropLast() + $0.suffix(1).map { $0 ^ 1 }
        }
        return AttestationIdentity(
            attestationKey: identity.attestationKey, endorsementCertificates: certificates)
    }
}

/// The first statement of a keystore.
private final class Earlier: Sendable {
    private let statement = Mutex<KeyAttestation?>(nil)

    func first(_ next: KeyAttestation) -> KeyAttestation {
        statement.withLock { kept in
            let first = kept ?? next
            kept = first
            return first
        }
    }
}

/// A keystore that always returns its first statement.
private struct ReplayingKeystore: KeystoreWrapper {
    let keystore: any Keystore
    let earlier: Earlier

    func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        earlier.first(try await keystore.attest(key, for: request, authorizedBy: presence))
    }
}
