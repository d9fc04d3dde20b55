import Crypto
import Foundation
import Latchkey
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Verification of TPM attestations") struct AttestationVerifierTests {
    let rig = AttestationRig()
    static let pinIndexAttributes = NVAttributes(rawValue: 0x2206_0088)

    // MARK: Helpers

    func statement(
        _ attributes: UInt32 = 0x0004_0072, policy: [UInt8] = [], presence: String? = nil,
        scheme: Scheme = .ecdsaSHA256
    ) throws -> ForgedStatement {
        ForgedStatement(
            certificates: [try rig.attestationKeyCertificate(), try rig.authorityCertificate()],
            area: AttestationRig.area(
                rig.key.publicKey, attributes: ObjectAttributes(rawValue: attributes),
                policy: policy, scheme: scheme),
            presence: presence)
    }

    func verify(
        _ statement: ForgedStatement,
        _ expectation: AttestationExpectation = AttestationRig.expectation(),
        anchors: AttestationAnchors? = nil, knowsApprovalKey: Bool = true,
        time: Date = AttestationRig.time,
        key: DevicePublicKey? = nil
    ) async throws -> AttestationVerdict {
        try await rig.verifier(anchors, knowsApprovalKey: knowsApprovalKey, time: time).verify(
            AttestationStatement(json: statement.json(rig)), of: key ?? rig.deviceKey,
            for: expectation)
    }

    func expect(
        _ code: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> AttestationVerdict
    ) async {
        let error = await #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            _ = try await body()
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    /// The JSON of a finger branch, and its digest.
    func finger(
        user: UInt32 = 1000, requirement: String = "biometry-any", reuse: UInt16 = 0,
        set: Data? = nil,
        counter: (area: NVPublicArea, value: UInt64)? = nil, key: Data? = nil
    ) throws -> (json: String, digest: PolicyDigest) {
        let key = key ?? rig.approvalArea()
        let name = TPMName(bytes: AttestationRig.tpmName(of: key))
        var json = #"{"type":"signed","key":"\#(Base64URL.encode(key))","user":\#(user),"#
        json += #""requirement":"\#(requirement)","reuse":\#(reuse)"#
        if let set { json += #","set":"\#(Base64URL.encode(set))""# }
        var digest = PolicyDigest()
        if let counter {
            json +=
                #","counter":{"index":"\#(Base64URL.encode(counter.area.marshalled))","value":\#(counter.value)}"#
            digest = digest.nvEquals(counter.value.marshalled, in: try counter.area.name)
        }
        let reference = Self.reference(
            "approval", user, TPM2B(Array(requirement.utf8)), reuse, TPM2B(Array(set ?? Data())))
        return (json + "}", digest.signed(by: name, policyRef: reference))
    }

    static func reference(_ kind: String, _ fields: any TPMMarshallable...) -> [UInt8] {
        var writer = TPMWriter(TPM2B(Array("org.latchkey.presence/v1/\(kind)".utf8)))
        for field in fields { field.marshal(into: &writer) }
        return Array(SHA256.hash(data: writer.bytes))
    }

    func pin(
        attributes: NVAttributes = pinIndexAttributes, size: UInt16 = 8, change: PolicyDigest? = nil
    ) throws -> (json: String, digest: PolicyDigest) {
        let reset = PolicyDigest().commandCode(.nvWrite)
        let change = change ?? PolicyDigest().authValue().commandCode(.nvChangeAuth)
        let area = NVPublicArea(
            index: TPMHandle(rawValue: 0x0180_4c00), attributes: attributes,
            authPolicy: try #require(PolicyDigest.or([reset, change])).bytes, dataSize: size)
        let json =
            #"{"type":"pin","index":"\#(Base64URL.encode(area.marshalled))","reset":"\#(Base64URL.encode(reset.bytes))"}"#
        return (
            json,
            PolicyDigest().secret(of: try area.name, policyRef: Self.reference("pin", UInt16(0)))
        )
    }

    static let certify = (
        json: #"{"type":"certify"}"#,
        digest: PolicyDigest().commandCode(TPMCommandCode(rawValue: 0x148))
    )

    static func presence(_ branches: [String], more: String = "") -> String {
        #"{"version":1,"branches":[\#(branches.joined(separator: ","))]\#(more)}"#
    }

    /// A key with these branches.
    func statement(
        _ attributes: UInt32, _ branches: [(json: String, digest: PolicyDigest)]
    ) throws -> ForgedStatement {
        let digest =
            branches.count < 2 ? branches.first?.digest : PolicyDigest.or(branches.map(\.digest))
        return try statement(
            attributes, policy: digest?.bytes ?? [], presence: Self.presence(branches.map(\.json)))
    }

    // MARK: Statements of a TPM

    @Test func `statements of a software TPM are accepted`() async throws {
        let key = try AttestationVectors.bytes("key[biometry-any, certify branch].public")
        let approvalKey = Base64URL.encode(try AttestationVectors.bytes("broker.public"))
        let presence = Self.presence([
            #"{"type":"signed","key":"\#(approvalKey)","user":1000,"requirement":"biometry-any","reuse":0,"set":null,"counter":null}"#,
            Self.certify.json,
        ])
        let deviceKey = DevicePublicKey.es256(try P256Area(key).publicKey)
        let known = ListedApprovalKeys([try AttestationVectors.bytes("broker.name")])
        for form in ["certify", "creation"] {
            var members: [(String, CBOR)] = [
                ("ver", .text("2.0")), ("alg", .negative(7)),
                ("x5c", .array([.bytes(try AttestationVectors.bytes("aik.certificate"))])),
                ("sig", .bytes(try AttestationVectors.bytes(form + ".signature"))),
                ("certInfo", .bytes(try AttestationVectors.bytes(form + ".certInfo"))),
                ("pubArea", .bytes(key)),
            ]
            if form == "creation" {
                members.append(
                    ("creationData", .bytes(try AttestationVectors.bytes("creation.creationData"))))
            }
            let object = CBOR.map([("fmt", .text("tpm")), ("attStmt", .map(members))]).encoded
            let statement = try AttestationStatement(
                json: ForgedStatement.json(object, clientData: nil, presence: presence))
            let root = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("aik.ca")])
            let expectation = AttestationExpectation(
                challenge: try AttestationVectors.bytes("certify.challenge"),
                binding: .qualifyingData,
                requirement: .init(.finger), requiresNewKey: form == "creation")
            let verdict = try await AttestationVerifier(
                anchors: AttestationAnchors(aik: root), approvalKeys: known,
                clock: WallClock { AttestationVectors.time }
            ).verify(statement, of: deviceKey, for: expectation)
            #expect(verdict.presence == .finger)
            #expect(
                verdict.hardware
                    == .tpm(manufacturer: "id:49424D00", model: "swtpm", version: "id:20191023"))
            #expect(verdict.provesPIN == .none)
            #expect(verdict.reuseSeconds == 0)
            #expect(!verdict.diesWithFingers)
            #expect(try verdict.approvalKeys == [AttestationVectors.bytes("broker.name")])

            let simulated = AttestationVerifier(
                anchors: AttestationAnchors(simulated: root), approvalKeys: known,
                clock: WallClock { AttestationVectors.time })
            await expect(.simulated) {
                try await simulated.verify(statement, of: deviceKey, for: expectation)
            }
            let unknown = AttestationVerifier(
                anchors: AttestationAnchors(aik: root), approvalKeys: ListedApprovalKeys([]),
                clock: WallClock { AttestationVectors.time })
            await expect(.unknownApprovalKey) {
                try await unknown.verify(statement, of: deviceKey, for: expectation)
            }
        }
    }

    @Test func `a WebAuthn object with another origin, server, kid or challenge is refused`()
        async throws
    {
        let object = try AttestationVectors.bytes("webauthn.object")
        let key = DevicePublicKey.es256(
            try P256Area(AttestationVectors.bytes("webauthn.pubArea")).publicKey)
        let approvalKey = Base64URL.encode(try AttestationVectors.bytes("broker.public"))
        let presence = Self.presence([
            #"{"type":"signed","key":"\#(approvalKey)","user":1000,"requirement":"biometry-any"}"#,
            Self.certify.json,
        ])
        let statement = try AttestationStatement(
            json: ForgedStatement.json(
                object, clientData: AttestationVectors.bytes("webauthn.cd"), presence: presence))
        let verifier = try AttestationVerifier(
            anchors: AttestationAnchors(aik: .init(roots: [AttestationVectors.bytes("aik.ca")])),
            approvalKeys: ListedApprovalKeys([AttestationVectors.bytes("broker.name")]),
            clock: WallClock { AttestationVectors.time })
        let challenge = try AttestationVectors.bytes("webauthn.challenge")
        let id = try AttestationVectors.bytes("webauthn.cid")
        let rpID = "id.example.com"
        #expect(
            Data(SHA256.hash(data: Data(rpID.utf8)))
                == (try AttestationVectors.bytes("webauthn.ad")).prefix(32))
        let good = AttestationRig.expectation(.init(.finger), challenge: challenge, keyID: id)
        #expect(try await verifier.verify(statement, of: key, for: good).presence == .finger)
        for wrong in [
            AttestationRig.expectation(
                challenge: challenge, origin: "https://evil.example.com", keyID: id),
            AttestationRig.expectation(challenge: challenge, rpID: "evil.example.com", keyID: id),
            AttestationRig.expectation(challenge: challenge, keyID: Data("other".utf8)),
            AttestationRig.expectation(challenge: Data(challenge.reversed()), keyID: id),
            AttestationExpectation(
                challenge: challenge, binding: .qualifyingData, requirement: .init(.none)),
        ] {
            await expect(.wrongChallenge) {
                try await verifier.verify(statement, of: key, for: wrong)
            }
        }
    }

    // MARK: Verdicts

    @Test func `each form of key gets its verdict`() async throws {
        let finger = try self.finger()
        let presence = try self.finger(requirement: "user-presence")
        let pin = try self.pin()
        typealias Row = (
            UInt32, [(json: String, digest: PolicyDigest)], AssuranceLevel.EnforcedPresence
        )
        let rows: [Row] = [
            (0x0004_0472, [], .none), (0x0004_0072, [], .pin), (0x0004_0072, [Self.certify], .pin),
            (0x0004_04b2, [pin, Self.certify], .pin), (0x0004_04b2, [pin], .pin),
            (0x0004_0072, [presence, Self.certify], .fingerOrPIN),
            (0x0004_0072, [presence], .fingerOrPIN),
            (0x0004_04b2, [presence, pin, Self.certify], .fingerOrPIN),
            (0x0004_04b2, [finger, Self.certify], .finger),
            (0x0004_04b2, [finger], .finger),
            // The policy asks for a finger, but the authValue opens the key without one, and may be
            // empty.
            (0x0004_04f2, [finger, Self.certify], .none), (0x0004_0472, [pin], .none),
        ]
        for (attributes, branches, expected) in rows {
            let verdict = try await verify(try statement(attributes, branches))
            #expect(
                verdict.presence == expected,
                "\(String(attributes, radix: 16)), \(branches.map(\.json))")
            #expect(verdict.provesPIN == ([.pin, .fingerOrPIN].contains(expected) ? .form : .none))
            #expect(verdict.meets(.init(.finger)) == (expected == .finger))
            #expect(verdict.meets(.init(.presence)) == (expected != .none))
            #expect(verdict.meets(.init(.hardware)))
            #expect(!verdict.meets(.init(.touch)))
        }
    }

    @Test func `a PIN index that was written once is accepted, other attributes are not`()
        async throws
    {
        let once = try pin(attributes: NVAttributes(rawValue: 0x2004_0008))
        #expect(try await verify(statement(0x0004_04b2, [once, Self.certify])).presence == .pin)
        for attributes: UInt32 in [0x0004_0008, 0x0206_0088, 0x2206_008c, 0x2004_000c, 0x2204_0008]
        {
            let branch = try pin(attributes: NVAttributes(rawValue: attributes))
            await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
        }
        let other = try pin(size: 9)
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [other])) }
        let changeable = try pin(change: PolicyDigest().commandCode(.nvChangeAuth))
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [changeable])) }
    }

    @Test func `an unknown approval key proves no finger`() async throws {
        let statement = try statement(0x0004_04b2, [finger(), Self.certify])
        for level in AttestationRequirement.Level.allCases
        where level != .none && level != .hardware {
            await expect(.unknownApprovalKey) {
                try await verify(
                    statement, AttestationRig.expectation(.init(level)), knowsApprovalKey: false)
            }
        }
        let verdict = try await verify(statement, knowsApprovalKey: false)
        #expect(verdict.presence == nil)
        #expect(verdict.approvalKeys == [Data(AttestationRig.tpmName(of: rig.approvalArea()))])
        // A second approval key in the policy is as bad.
        let other = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0472)
        )
        let both = try self.statement(0x0004_04b2, [finger(), finger(key: other)])
        await expect(.unknownApprovalKey) {
            try await verify(both, AttestationRig.expectation(.init(.finger)))
        }
        #expect(
            try await verify(both).approvalKeys
                == [rig.approvalArea(), other].map { Data(AttestationRig.tpmName(of: $0)) })
    }

    @Test func `the longest reuse counts, and is limited for fingers`() async throws {
        let statement = try statement(0x0004_04b2, [finger(), finger(reuse: 30)])
        #expect(try await verify(statement).reuseSeconds == 30)
        await expect(.insufficientPresence) {
            try await verify(
                statement, AttestationRig.expectation(.init(.finger, maximumReuseSeconds: 29)))
        }
        let limit = AttestationRequirement(.finger, maximumReuseSeconds: 30)
        #expect(try await verify(statement, AttestationRig.expectation(limit)).presence == .finger)
    }

    @Test func `a policy that ends with PolicyAuthValue is recomputed`() async throws {
        let finger = try finger(reuse: 30)
        let digest = try #require(PolicyDigest.or([finger.digest, Self.certify.digest])).authValue()
        let branches = [finger.json, Self.certify.json]
        let statement = try statement(
            0x0004_04b2, policy: digest.bytes,
            presence: Self.presence(branches, more: #","auth_value":true"#))
        #expect(try await verify(statement).presence == .finger)
        let hidden = try self.statement(
            0x0004_04b2, policy: digest.bytes, presence: Self.presence(branches))
        await expect(.wrongPolicy) { try await verify(hidden) }
        let alone = try self.statement(
            0x0004_04f2, policy: PolicyDigest().authValue().bytes,
            presence: Self.presence([], more: #","auth_value":true"#))
        await expect(.wrongPolicy) { try await verify(alone) }
    }

    func counter(_ attributes: UInt32 = 0x2206_0018, user: UInt32 = 1000, size: UInt16 = 8)
        -> NVPublicArea
    {
        let name = TPMName(bytes: AttestationRig.tpmName(of: rig.approvalArea()))
        let policy = PolicyDigest().signed(
            by: name, policyRef: Self.reference("enrolment-change", user))
        return NVPublicArea(
            index: TPMHandle(rawValue: 0x0180_4c01), attributes: NVAttributes(rawValue: attributes),
            authPolicy: policy.bytes, dataSize: size)
    }

    @Test func `a key for the current set of fingers dies with it`() async throws {
        let set = Data(SHA256.hash(data: Data("fingers".utf8)))
        let requirement = "biometry-current-set"
        let bound = try finger(requirement: requirement, set: set, counter: (counter(), 7))
        let verdict = try await verify(statement(0x0004_04b2, [bound, Self.certify]))
        #expect(verdict.presence == .finger)
        #expect(verdict.diesWithFingers)
        #expect(try await !verify(statement(0x0004_0072, [bound])).diesWithFingers)
        #expect(
            try await !verify(statement(0x0004_04b2, [finger(requirement: requirement, set: set)]))
                .diesWithFingers)
        for area in [
            counter(0x2206_0010), counter(0x2206_001c), counter(user: 1001), counter(size: 9),
        ] {
            let branch = try finger(requirement: requirement, set: set, counter: (area, 7))
            await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
        }
        for branch in [
            try finger(requirement: requirement),
            try finger(requirement: requirement, set: set.prefix(31)),
            try finger(set: set), try finger(counter: (counter(), 7)),
            try finger(requirement: "none"),
        ] {
            await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
        }
    }

    @Test func `NV_Certify shows the counter's value, and nothing else is accepted`() async throws {
        let area = counter()
        let set = Data(SHA256.hash(data: Data("fingers".utf8)))
        let bound = try finger(requirement: "biometry-current-set", set: set, counter: (area, 7))
        func verify(
            value: UInt64 = 7, index: [UInt8]? = nil, answers: Bool = true, isSigned: Bool = true,
            type: UInt16 = 0x8014
        )
            async throws -> AttestationVerdict
        {
            var statement = try statement(0x0004_04b2, [bound])
            // A first encoding shows the extraData of the statement.
            let json = try statement.json(rig)
            guard case .tpm(let parsed) = try AttestationStatement(json: json).content else {
                throw CancellationError()
            }
            let extraData =
                answers ? try Attest(unmarshalling: parsed.certInfo).extraData : [1, 2, 3]
            let name = try index ?? area.name.bytes
            let info = Data(
                TPMWriter(
                    UInt32(0xff54_4347), type, TPM2B([0, 11]), TPM2B(extraData), UInt64(1),
                    UInt32(2), UInt32(3),
                    UInt8(1),
                    UInt64(4), TPM2B(name), UInt16(0), TPM2B(value.marshalled)
                ).bytes)
            let signature = try isSigned ? rig.signature(info) : rig.signature(Data([1]))
            let more =
                #","certInfo":"\#(Base64URL.encode(info))","sig":"\#(Base64URL.encode(signature))"}"#
            statement.presence = Self.presence([
                bound.json.replacing(#""value":7}"#, with: #""value":7"# + more)
            ])
            return try await self.verify(statement)
        }
        #expect(try await verify().diesWithFingers)
        await expect(.wrongPolicy) { try await verify(value: 8) }
        await expect(.wrongPolicy) {
            try await verify(index: [0, 11] + [UInt8](repeating: 1, count: 32))
        }
        await expect(.wrongChallenge) { try await verify(answers: false) }
        await expect(.invalidSignature) { try await verify(isSigned: false) }
        await expect(.wrongType) { try await verify(type: 0x8017) }
    }
}
