import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Each way to get a token, claims or a share, with each reason why a key may no longer be used, at
/// the real program on the selected database. The operator changes the configuration and restarts
/// the server; the keys and sessions are older.
@Suite("Requirements at each grant") struct GrantRequirementTests {
    /// The ways to get something with a key.
    enum Grant: String, CaseIterable {
        case biometric, refreshBiometric, idTokenBiometric, userInfoBiometric
        case easyAccess, refreshEasyAccess, idTokenEasyAccess, levelSharesEasyAccess
        case background, userInfoBackground
        /// With a session that began with a password.
        case levelSharesPassword, countersignature

        /// Whether a device key is used, which needs `hardware` at most.
        var needsDeviceKey: Bool { !rawValue.hasSuffix("iometric") }
        /// Whether a key is used that must meet the whole requirement.
        var needsUserKey: Bool {
            switch self {
            case .background, .userInfoBackground, .levelSharesPassword, .countersignature: false
            default: true
            }
        }
    }

    /// The proofs of a device's keys.
    enum Proof: String, CaseIterable {
        case none, pin, twoBrokers, simulated
    }

    /// A refusal of the server.
    enum Refusal: Hashable {
        case required
        case refused(AttestationError.Code)
    }

    /// A change of the configuration, and the refusals of the keys of each proof.
    struct Change {
        let name: String
        var attestation: [String: JSONValue] = [:]
        var client: [String: JSONValue] = [:]
        /// The Name of an approval key that the administrator removed.
        var removed: Data?
        /// The refusal of keys that authenticate the user.
        let user: [Proof: Refusal]
        /// The refusal of device keys.
        let device: [Proof: Refusal]

        func refusal(of grant: Grant, _ proof: Proof) -> Refusal? {
            (grant.needsDeviceKey ? device[proof] : nil)
                ?? (grant.needsUserKey ? user[proof] : nil)
        }
    }

    private static func changes(_ tpm: TestTPM) -> [Change] {
        let weak = Refusal.refused(.insufficientPresence)
        let unknown = Refusal.refused(.unknownApprovalKey)
        return [
            Change(
                name: "hardware", attestation: ["require": "hardware"], user: [.none: .required],
                device: [.none: .required]),
            Change(
                name: "hardware, no simulators",
                attestation: ["require": "hardware", "accept_simulated": false],
                user: [.none: .required, .simulated: .refused(.simulated)],
                device: [.none: .required, .simulated: .refused(.simulated)]),
            Change(
                name: "of the client", client: ["attestation_require": "presence"],
                user: [.none: .required], device: [.none: .required]),
            Change(
                name: "finger", attestation: ["require": "finger"],
                user: [.none: .required, .pin: weak, .simulated: weak],
                device: [.none: .required]),
            Change(
                name: "the second approval key removed",
                attestation: ["require": "presence"],
                removed: tpm.secondApprovalKeyName,
                user: [.none: .required, .twoBrokers: unknown], device: [.none: .required]),
            Change(
                name: "the first approval key removed",
                attestation: ["require": "presence"],
                removed: tpm.approvalKeyName,
                user: [.none: .required, .twoBrokers: unknown], device: [.none: .required]),
            Change(name: "none", user: [:], device: [:]),
        ]
    }

    @Test func `a key that does not meet the requirement gets nothing, by any grant`() async throws
    {
        let (tpm, simulated) = (TestTPM(), TestTPM())
        try await TemporaryDirectory.withDirectory { directory in
            let anchors = try tpm.anchors(in: directory)
            _ = try simulated.anchors(in: directory, as: "simulated", at: anchors)
            let (database, storage) = try await IdentityProcess.storage(in: directory)
            // All servers have the port of the first one: proofs and assertions name the issuer.
            var port = "0"
            func withServer<Value: Sendable>(
                _ change: Change, _ body: @Sendable (TestServer) async throws -> Value
            ) async throws -> Value {
                let config = directory.path(of: "config.json")
                let attestation: [String: JSONValue] = [
                    "anchors": .string(anchors), "accept_simulated": true,
                ].merging(change.attestation) { $1 }
                let client: [String: JSONValue] = [
                    "client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"],
                ].merging(change.client) { $1 }
                let json: [String: JSONValue] = [
                    "attestation": .object(attestation), "clients": [.object(client)],
                ]
                try CanonicalJSON.encode(json).write(to: URL(filePath: config))
                let process = try await IdentityProcess(
                    ["--config", config, "--port", port] + storage)
                port = process.port
                let value = try await TestServer.lend(process, database: database, body)
                #expect(await process.stop() == 0)
                return value
            }

            let old = try #require(Self.changes(tpm).last)
            var devices = try await withServer(old) { server in
                var devices: [Proof: ProvenDevice] = [:]
                let bearer = try await server.login().access
                let chains = try await (
                    tpm.activate(on: server, bearer: bearer),
                    simulated.activate(on: server, bearer: bearer)
                )
                let registry = DatabaseApprovalKeyRegistry(server.services.database)
                for name in [tpm.approvalKeyName, tpm.secondApprovalKeyName] {
                    #expect(try await registry.enrol(name, inTPMOf: tpm.attestationPublicKey))
                }
                for proof in Proof.allCases {
                    let maker: (TestTPM, [Data], TestTPM.Kind)? =
                        switch proof {
                        case .none: nil
                        case .pin: (tpm, chains.0, .pin)
                        case .twoBrokers: (tpm, chains.0, .twoBrokers)
                        case .simulated: (simulated, chains.1, .pin)
                        }
                    devices[proof] = try await ProvenDevice(maker, on: server)
                }
                return devices
            }
            for change in Self.changes(tpm) {
                devices = try await withServer(change) { [devices] server in
                    let chain = try await tpm.activate(
                        on: server, bearer: server.login().access)
                    var devices = devices
                    let registry = DatabaseApprovalKeyRegistry(server.services.database)
                    if let name = change.removed { #expect(try await registry.remove(name)) }
                    for proof in Proof.allCases {
                        guard var device = devices[proof] else { continue }
                        for grant in Grant.allCases {
                            // The new key of this request does not meet `finger` itself.
                            if grant == .countersignature, change.name == "finger" { continue }
                            let answer = try await device.perform(grant, on: server, tpm, chain)
                            Self.expect(
                                answer, change.refusal(of: grant, proof),
                                "\(change.name): \(proof) \(grant)")
                        }
                        devices[proof] = device
                    }
                    if let name = change.removed {
                        #expect(try await registry.enrol(name, inTPMOf: tpm.attestationPublicKey))
                    }
                    // A session that began with a password has no key.
                    let tokens = try await server.login()
                    try await server.userInfo(tokens.access).success()
                    try await server.refresh(#require(tokens.refresh)).success()
                    return devices
                }
            }
        }
    }

    private static func expect(_ answer: Answer, _ refusal: Refusal?, _ comment: String) {
        guard let refusal else {
            #expect([200, 204].contains(answer.status), "\(comment): \(answer.body)")
            return
        }
        let (error, reason): (String, JSONValue?) =
            switch refusal {
            case .required: ("attestation_required", nil)
            case .refused(let code): ("attestation_refused", .string(code.rawValue))
            }
        #expect(answer.status == 400, "\(comment): \(answer.body)")
        #expect((try? answer.json["error"]) == .string(error), "\(comment): \(answer.body)")
        #expect((try? answer.json["reason"]) == reason, "\(comment): \(answer.body)")
        for secret in ["access_token", "id_token", "level_shares", "sub"] {
            #expect((try? answer.json[secret]) == .some(nil), "\(comment): \(answer.body)")
        }
    }
}

/// A device with keys of one proof, and its sessions.
struct ProvenDevice: Sendable {
    private let login = TestDevice()
    private let enrolled: EnrolledDevice
    /// A further key for easy access, which the device countersigns.
    private let further = LockerTestKey()
    private var biometric: Tokens
    private var easyAccess: Tokens
    private let background: Tokens

    /// Sets up biometric login, an enrolment and easy access, and begins a session with each.
    ///
    /// - Parameter maker: The hardware, its certificates and the kind of the keys that authenticate
    ///   the user; nil without a proof.
    init(_ maker: (tpm: TestTPM, chain: [Data], kind: TestTPM.Kind)?, on server: TestServer)
        async throws
    {
        let tokens = try await server.login()
        if let maker {
            try await server.setUp(
                login, maker.kind, in: maker.tpm, certificates: maker.chain, bearer: tokens.access
            ).success()
        } else {
            try await server.setUp(login, bearer: tokens.access).success()
        }
        let (key, easyAccessKey) = (LockerTestKey(), LockerTestKey())
        let answer = try await Self.add(
            key, "enrol", of: nil, maker.map { ($0.tpm, $0.chain, .bare) }, on: server,
            bearer: tokens.access)
        try #require(answer.status == 201, "\(answer.body)")
        enrolled = EnrolledDevice(
            id: try #require(try answer.json["enrolment_id"]?.string), key: key,
            easyAccess: easyAccessKey, tokens: tokens, shares: nil)
        let enabled = try await Self.add(
            easyAccessKey, "easy-access-enable", of: enrolled, maker, on: server,
            bearer: tokens.access)
        try #require(enabled.status == 204, "\(enabled.body)")
        biometric = try Tokens(await server.authenticate(login).success())
        easyAccess = try Tokens(
            await server.easyAccess(enrolled, form: ["scope": TestServer.fullScope]).success())
        background = try Tokens(await server.backgroundAccess(enrolled).success())
    }

    /// Requests something with a key of the device.
    mutating func perform(
        _ grant: GrantRequirementTests.Grant, on server: TestServer, _ tpm: TestTPM, _ chain: [Data]
    ) async throws -> Answer {
        switch grant {
        case .biometric:
            // A login ends the device's earlier session.
            let answer = try await server.authenticate(login)
            if answer.status == 200 { biometric = try Tokens(answer.json) }
            return answer
        case .refreshBiometric:
            let answer = try await server.refresh(#require(biometric.refresh))
            if answer.status == 200 { biometric = try Tokens(answer.json) }
            return answer
        case .idTokenBiometric: return try await idToken(biometric, server)
        case .userInfoBiometric: return try await server.userInfo(biometric.access)
        case .easyAccess: return try await server.easyAccess(enrolled)
        case .refreshEasyAccess:
            let answer = try await server.refresh(#require(easyAccess.refresh))
            if answer.status == 200 { easyAccess = try Tokens(answer.json) }
            return answer
        case .idTokenEasyAccess: return try await idToken(easyAccess, server)
        case .levelSharesEasyAccess:
            return try await server.levelShares(enrolled, bearer: easyAccess.access)
        case .background: return try await server.backgroundAccess(enrolled)
        case .userInfoBackground: return try await server.userInfo(background.access)
        case .levelSharesPassword:
            return try await server.levelShares(enrolled, bearer: enrolled.tokens.access)
        case .countersignature:
            let bearer = try await server.login().access
            return try await Self.add(
                further, "easy-access-enable", of: enrolled, (tpm, chain, .pin), on: server,
                bearer: bearer)
        }
    }

    private func idToken(_ tokens: Tokens, _ server: TestServer) async throws -> Answer {
        try await server.post(
            "/oauth2/token",
            form: [
                "client_id": "app",
                "grant_type": "urn:authgear:params:oauth:grant-type:id-token",
            ], bearer: tokens.access)
    }

    /// Enrols a device, or enables easy access.
    private static func add(
        _ key: LockerTestKey, _ action: String, of device: EnrolledDevice?,
        _ maker: (tpm: TestTPM, chain: [Data], kind: TestTPM.Kind)?, on server: TestServer,
        bearer: String
    ) async throws -> Answer {
        let challenge = try #require(try await server.lockerChallenge(for: action))
        let assertion = try key.assertion(
            action, audience: server.origin, enrolment: device?.id, challenge: challenge,
            now: server.time.seconds)
        var members: [String: JSONValue] = ["assertion": .string(assertion)]
        if let device {
            members["device_signature"] = .string(
                try device.key.countersignature(of: assertion))
        }
        if let maker {
            let statement = try maker.tpm.statement(
                maker.kind, of: key.key, named: key.kid, challenge: challenge,
                origin: server.origin, certificates: maker.chain)
            members["attestation"] = try JSONDecoder().decode(
                JSONValue.self, from: Data(statement.utf8))
        }
        let path = device.map { "\(TestServer.lockerPath)/\($0.id)/easy-access" }
        return try await server.post(
            path ?? TestServer.lockerPath, json: CanonicalJSON.text(members), bearer: bearer)
    }
}
