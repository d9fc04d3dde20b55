import Crypto
import Foundation
import Latchkey
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Verification of TPM attestations") struct AttestationVerifierTests {
    private let rig = AttestationRig()
    private static let pinIndexAttributes = NVAttributes(rawValue: 0x2206_0088)

    // MARK: Helpers

    private func statement(
        _ attributes: UInt32 = 0x0004_0072, policy: [UInt8] = [], presence: String? = nil,
        scheme: Scheme = .ecdsaSHA256
    ) throws -> ForgedStatement {
        ForgedStatement(
            certificates: [try rig.attestationKeyCertificate(), try rig.authorityCertificate()],
            area: AttestationRig.area(
                rig.key.publicKey, attributes: ObjectAttributes(rawValue: attributes), policy: policy, scheme: scheme),
            presence: presence)
    }

    private func verify(
        _ statement: ForgedStatement, _ expectation: AttestationExpectation = AttestationRig.expectation(),
        anchors: AttestationAnchors? = nil, knowsApprovalKey: Bool = true, time: Date = AttestationRig.time,
        key: DevicePublicKey? = nil
    ) async throws -> AttestationVerdict {
        try await rig.verifier(anchors, knowsApprovalKey: knowsApprovalKey, time: time).verify(
            AttestationStatement(json: statement.json(rig)), of: key ?? rig.deviceKey, for: expectation)
    }

    private func expect(
        _ code: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> AttestationVerdict
    ) async {
        let error = await #expect(throws: AttestationError.self, sourceLocation: sourceLocation) { _ = try await body() }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    /// The JSON of a finger branch, and its digest.
    private func finger(
        user: UInt32 = 1000, requirement: String = "biometry-any", reuse: UInt16 = 0, set: Data? = nil,
        counter: (area: NVPublicArea, value: UInt64)? = nil, key: Data? = nil
    ) throws -> (json: String, digest: PolicyDigest) {
        let key = key ?? rig.approvalArea()
        let name = TPMName(bytes: AttestationRig.tpmName(of: key))
        var json = #"{"type":"signed","key":"\#(Base64URL.encode(key))","user":\#(user),"#
        json += #""requirement":"\#(requirement)","reuse":\#(reuse)"#
        if let set { json += #","set":"\#(Base64URL.encode(set))""# }
        var digest = PolicyDigest()
        if let counter {
            json += #","counter":{"index":"\#(Base64URL.encode(counter.area.marshalled))","value":\#(counter.value)}"#
            digest = digest.nvEquals(counter.value.marshalled, in: try counter.area.name)
        }
        let reference = Self.reference(
            "approval", user, TPM2B(Array(requirement.utf8)), reuse, TPM2B(Array(set ?? Data())))
        return (json + "}", digest.signed(by: name, policyRef: reference))
    }

    private static func reference(_ kind: String, _ fields: any TPMMarshallable...) -> [UInt8] {
        var writer = TPMWriter(TPM2B(Array("org.latchkey.presence/v1/\(kind)".utf8)))
        for field in fields { field.marshal(into: &writer) }
        return Array(SHA256.hash(data: writer.bytes))
    }

    private func pin(
        attributes: NVAttributes = pinIndexAttributes, size: UInt16 = 8, change: PolicyDigest? = nil
    ) throws -> (json: String, digest: PolicyDigest) {
        let reset = PolicyDigest().commandCode(.nvWrite)
        let change = change ?? PolicyDigest().authValue().commandCode(.nvChangeAuth)
        let area = NVPublicArea(
            index: TPMHandle(rawValue: 0x0180_4c00), attributes: attributes,
            authPolicy: try #require(PolicyDigest.or([reset, change])).bytes, dataSize: size)
        let json = #"{"type":"pin","index":"\#(Base64URL.encode(area.marshalled))","reset":"\#(Base64URL.encode(reset.bytes))"}"#
        return (json, PolicyDigest().secret(of: try area.name, policyRef: Self.reference("pin", UInt16(0))))
    }

    private static let certify = (
        json: #"{"type":"certify"}"#, digest: PolicyDigest().commandCode(TPMCommandCode(rawValue: 0x148))
    )

    private static func presence(_ branches: [String], more: String = "") -> String {
        #"{"version":1,"branches":[\#(branches.joined(separator: ","))]\#(more)}"#
    }

    /// A key with these branches.
    private func statement(
        _ attributes: UInt32, _ branches: [(json: String, digest: PolicyDigest)]
    ) throws -> ForgedStatement {
        let digest = branches.count < 2 ? branches.first?.digest : PolicyDigest.or(branches.map(\.digest))
        return try statement(attributes, policy: digest?.bytes ?? [], presence: Self.presence(branches.map(\.json)))
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
                ("certInfo", .bytes(try AttestationVectors.bytes(form + ".certInfo"))), ("pubArea", .bytes(key)),
            ]
            if form == "creation" {
                members.append(("creationData", .bytes(try AttestationVectors.bytes("creation.creationData"))))
            }
            let object = CBOR.map([("fmt", .text("tpm")), ("attStmt", .map(members))]).encoded
            let statement = try AttestationStatement(
                json: ForgedStatement.json(object, clientData: nil, presence: presence))
            let root = try AttestationAnchors.Group(roots: [AttestationVectors.bytes("aik.ca")])
            let expectation = AttestationExpectation(
                challenge: try AttestationVectors.bytes("certify.challenge"), binding: .qualifyingData,
                requirement: .init(.finger), requiresNewKey: form == "creation")
            let verdict = try await AttestationVerifier(
                anchors: AttestationAnchors(aik: root), approvalKeys: known, clock: WallClock { AttestationVectors.time }
            ).verify(statement, of: deviceKey, for: expectation)
            #expect(verdict.presence == .finger)
            #expect(
                verdict.hardware == .tpm(manufacturer: "id:49424D00", model: "swtpm", version: "id:20191023"))
            #expect(verdict.provesPIN == .none)
            #expect(verdict.reuseSeconds == 0)
            #expect(!verdict.diesWithFingers)
            #expect(try verdict.approvalKey == AttestationVectors.bytes("broker.name"))

            let simulated = AttestationVerifier(
                anchors: AttestationAnchors(simulated: root), approvalKeys: known,
                clock: WallClock { AttestationVectors.time })
            await expect(.simulated) { try await simulated.verify(statement, of: deviceKey, for: expectation) }
            let unknown = AttestationVerifier(
                anchors: AttestationAnchors(aik: root), approvalKeys: ListedApprovalKeys([]),
                clock: WallClock { AttestationVectors.time })
            await expect(.unknownApprovalKey) { try await unknown.verify(statement, of: deviceKey, for: expectation) }
        }
    }

    @Test func `a WebAuthn object with another origin, server, kid or challenge is refused`() async throws {
        let object = try AttestationVectors.bytes("webauthn.object")
        let key = DevicePublicKey.es256(try P256Area(AttestationVectors.bytes("webauthn.pubArea")).publicKey)
        let approvalKey = Base64URL.encode(try AttestationVectors.bytes("broker.public"))
        let presence = Self.presence([
            #"{"type":"signed","key":"\#(approvalKey)","user":1000,"requirement":"biometry-any"}"#, Self.certify.json,
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
        #expect(Data(SHA256.hash(data: Data(rpID.utf8))) == (try AttestationVectors.bytes("webauthn.ad")).prefix(32))
        let good = AttestationRig.expectation(.init(.finger), challenge: challenge, keyID: id)
        #expect(try await verifier.verify(statement, of: key, for: good).presence == .finger)
        for wrong in [
            AttestationRig.expectation(challenge: challenge, origin: "https://evil.example.com", keyID: id),
            AttestationRig.expectation(challenge: challenge, rpID: "evil.example.com", keyID: id),
            AttestationRig.expectation(challenge: challenge, keyID: Data("other".utf8)),
            AttestationRig.expectation(challenge: Data(challenge.reversed()), keyID: id),
            AttestationExpectation(challenge: challenge, binding: .qualifyingData, requirement: .init(.none)),
        ] {
            await expect(.wrongChallenge) { try await verifier.verify(statement, of: key, for: wrong) }
        }
    }

    // MARK: Verdicts

    @Test func `each form of key gets its verdict`() async throws {
        let finger = try self.finger()
        let presence = try self.finger(requirement: "user-presence")
        let pin = try self.pin()
        typealias Row = (UInt32, [(json: String, digest: PolicyDigest)], AssuranceLevel.EnforcedPresence)
        let rows: [Row] = [
            (0x0004_0472, [], .none), (0x0004_0072, [], .pin), (0x0004_0072, [Self.certify], .pin),
            (0x0004_04b2, [pin, Self.certify], .pin), (0x0004_04b2, [pin], .pin),
            (0x0004_0072, [presence, Self.certify], .fingerOrPIN), (0x0004_0072, [presence], .fingerOrPIN),
            (0x0004_04b2, [presence, pin, Self.certify], .fingerOrPIN), (0x0004_04b2, [finger, Self.certify], .finger),
            (0x0004_04b2, [finger], .finger),
            // The policy asks for a finger, but the authValue opens the key without one, and may be empty.
            (0x0004_04f2, [finger, Self.certify], .none), (0x0004_0472, [pin], .none),
        ]
        for (attributes, branches, expected) in rows {
            let verdict = try await verify(try statement(attributes, branches))
            #expect(verdict.presence == expected, "\(String(attributes, radix: 16)), \(branches.map(\.json))")
            #expect(verdict.provesPIN == ([.pin, .fingerOrPIN].contains(expected) ? .form : .none))
            #expect(verdict.meets(.init(.finger)) == (expected == .finger))
            #expect(verdict.meets(.init(.presence)) == (expected != .none))
            #expect(verdict.meets(.init(.hardware)))
            #expect(!verdict.meets(.init(.touch)))
        }
    }

    @Test func `a PIN index that was written once is accepted, other attributes are not`() async throws {
        let once = try pin(attributes: NVAttributes(rawValue: 0x2004_0008))
        #expect(try await verify(statement(0x0004_04b2, [once, Self.certify])).presence == .pin)
        for attributes: UInt32 in [0x0004_0008, 0x0206_0088, 0x2206_008c, 0x2004_000c, 0x2204_0008] {
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
        for level in AttestationRequirement.Level.allCases where level != .none && level != .hardware {
            await expect(.unknownApprovalKey) {
                try await verify(statement, AttestationRig.expectation(.init(level)), knowsApprovalKey: false)
            }
        }
        let verdict = try await verify(statement, knowsApprovalKey: false)
        #expect(verdict.presence == nil)
        #expect(verdict.approvalKey == Data(AttestationRig.tpmName(of: rig.approvalArea())))
        // A second approval key in the policy is as bad.
        let other = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0472))
        let both = try self.statement(0x0004_04b2, [finger(), finger(key: other)])
        await expect(.unknownApprovalKey) { try await verify(both, AttestationRig.expectation(.init(.finger))) }
        #expect(try await verify(both).approvalKey == Data(AttestationRig.tpmName(of: other)))
    }

    @Test func `the longest reuse counts, and is limited for fingers`() async throws {
        let statement = try statement(0x0004_04b2, [finger(), finger(reuse: 30)])
        #expect(try await verify(statement).reuseSeconds == 30)
        await expect(.insufficientPresence) {
            try await verify(statement, AttestationRig.expectation(.init(.finger, maximumReuseSeconds: 29)))
        }
        let limit = AttestationRequirement(.finger, maximumReuseSeconds: 30)
        #expect(try await verify(statement, AttestationRig.expectation(limit)).presence == .finger)
    }

    @Test func `a policy that ends with PolicyAuthValue is recomputed`() async throws {
        let finger = try finger(reuse: 30)
        let digest = try #require(PolicyDigest.or([finger.digest, Self.certify.digest])).authValue()
        let branches = [finger.json, Self.certify.json]
        let statement = try statement(
            0x0004_04b2, policy: digest.bytes, presence: Self.presence(branches, more: #","auth_value":true"#))
        #expect(try await verify(statement).presence == .finger)
        let hidden = try self.statement(0x0004_04b2, policy: digest.bytes, presence: Self.presence(branches))
        await expect(.wrongPolicy) { try await verify(hidden) }
        let alone = try self.statement(
            0x0004_04f2, policy: PolicyDigest().authValue().bytes,
            presence: Self.presence([], more: #","auth_value":true"#))
        await expect(.wrongPolicy) { try await verify(alone) }
    }

    private func counter(_ attributes: UInt32 = 0x2206_0018, user: UInt32 = 1000, size: UInt16 = 8) -> NVPublicArea {
        let name = TPMName(bytes: AttestationRig.tpmName(of: rig.approvalArea()))
        let policy = PolicyDigest().signed(by: name, policyRef: Self.reference("enrolment-change", user))
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
        #expect(try await !verify(statement(0x0004_04b2, [finger(requirement: requirement, set: set)])).diesWithFingers)
        for area in [counter(0x2206_0010), counter(0x2206_001c), counter(user: 1001), counter(size: 9)] {
            let branch = try finger(requirement: requirement, set: set, counter: (area, 7))
            await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
        }
        for branch in [
            try finger(requirement: requirement), try finger(requirement: requirement, set: set.prefix(31)),
            try finger(set: set), try finger(counter: (counter(), 7)), try finger(requirement: "none"),
        ] {
            await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
        }
    }

    @Test func `NV_Certify shows the counter's value, and nothing else is accepted`() async throws {
        let area = counter()
        let set = Data(SHA256.hash(data: Data("fingers".utf8)))
        let bound = try finger(requirement: "biometry-current-set", set: set, counter: (area, 7))
        func verify(value: UInt64 = 7, index: [UInt8]? = nil, answers: Bool = true, isSigned: Bool = true, type: UInt16 = 0x8014)
            async throws -> AttestationVerdict
        {
            var statement = try statement(0x0004_04b2, [bound])
            // A first encoding shows the extraData of the statement.
            let json = try statement.json(rig)
            guard case .tpm(let parsed) = try AttestationStatement(json: json).content else { throw CancellationError() }
            let extraData = answers ? try Attest(unmarshalling: parsed.certInfo).extraData : [1, 2, 3]
            let name = try index ?? area.name.bytes
            let info = Data(
                TPMWriter(
                    UInt32(0xff54_4347), type, TPM2B([0, 11]), TPM2B(extraData), UInt64(1), UInt32(2), UInt32(3), UInt8(1),
                    UInt64(4), TPM2B(name), UInt16(0), TPM2B(value.marshalled)
                ).bytes)
            let signature = try isSigned ? rig.signature(info) : rig.signature(Data([1]))
            let more = #","certInfo":"\#(Base64URL.encode(info))","sig":"\#(Base64URL.encode(signature))"}"#
            statement.presence = Self.presence([bound.json.replacing(#""value":7}"#, with: #""value":7"# + more)])
            return try await self.verify(statement)
        }
        #expect(try await verify().diesWithFingers)
        await expect(.wrongPolicy) { try await verify(value: 8) }
        await expect(.wrongPolicy) { try await verify(index: [0, 11] + [UInt8](repeating: 1, count: 32)) }
        await expect(.wrongChallenge) { try await verify(answers: false) }
        await expect(.invalidSignature) { try await verify(isSigned: false) }
        await expect(.wrongType) { try await verify(type: 0x8017) }
    }

    // MARK: Refusals

    @Test func `a policy that the branches do not explain is refused`() async throws {
        let finger = try finger()
        // A different approval key, user, order, a branch that is not declared, and one too many.
        let other = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0472))
        let hidden = (json: "", digest: PolicyDigest().authValue())
        let policy = { (branches: [(json: String, digest: PolicyDigest)]) in
            PolicyDigest.or(branches.map(\.digest))?.bytes ?? []
        }
        let rows: [([UInt8], [String])] = [
            (policy([finger, Self.certify]), [try self.finger(key: other).json, Self.certify.json]),
            (policy([finger, Self.certify]), [try self.finger(user: 1001).json, Self.certify.json]),
            (policy([finger, Self.certify]), [Self.certify.json, finger.json]),
            (policy([finger, Self.certify]), [finger.json]),
            (policy([finger, Self.certify, hidden]), [finger.json, Self.certify.json]),
            (policy([finger, hidden]), [finger.json]), (finger.digest.bytes, [finger.json, Self.certify.json]),
            (finger.digest.bytes, []), ([], [finger.json]), ([UInt8](finger.digest.bytes.prefix(31)), [finger.json]),
            (finger.digest.bytes, [#"{"type":"digest"}"#]), (hidden.digest.bytes, [#"{"type":"authvalue"}"#]),
        ]
        for (digest, branches) in rows {
            let statement = try statement(0x0004_04b2, policy: digest, presence: Self.presence(branches))
            await expect(.wrongPolicy) { try await verify(statement) }
        }
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [Self.certify])) }
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [])) }
    }

    @Test(arguments: [0x0005_0472, 0x0006_0472, 0x0004_0462, 0x0004_0052, 0x0004_0480] as [UInt32])
    func `an approval key that can leave its TPM or does more than sign is refused`(attributes: UInt32) async throws {
        let branch = try finger(key: rig.approvalArea(attributes))
        await expect(.wrongPolicy) { try await verify(try statement(0x0004_04b2, [branch])) }
    }

    /// Imported, imported with sensitiveDataOrigin set, restricted, decrypting, cleared at reset, with encrypted duplication,
    /// fixedParent alone, and with a reserved bit.
    @Test(arguments: [
        0x0004_0480, 0x0004_04a0, 0x0005_0472, 0x0006_0472, 0x0004_0476, 0x0004_0c72, 0x0004_0470, 0x0004_0462,
        0x0004_0452, 0x0000_0472, 0x0004_0473, 0x8004_0472,
    ] as [UInt32]) func `a key with other attributes is refused`(attributes: UInt32) async throws {
        await expect(.wrongAttributes) { try await verify(try statement(attributes, [])) }
    }

    @Test func `a statement of another type, magic or length is refused`() async throws {
        var forged = try statement()
        forged.type = 0x8018
        await expect(.wrongType) { try await verify(forged) }
        forged.type = 0x8014
        await expect(.wrongType) { try await verify(forged) }
        forged.magic = 0xff54_4348
        await expect(.wrongMagic) { try await verify(forged) }
        let good = AttestationRig.certInfo(extraData: Data(count: 32), name: [0, 11])
        for certInfo in [Data(), good.prefix(5), good + Data([0]), good.dropLast()] {
            var forged = try statement()
            forged.certInfo = certInfo
            await expect(.malformed) { try await verify(forged) }
        }
    }

    @Test func `a statement about another key, or by another key, is refused`() async throws {
        var forged = try statement()
        forged.name = AttestationRig.tpmName(of: rig.approvalArea())
        await expect(.wrongName) { try await verify(forged) }
        forged = try statement()
        forged.signature = try AttestationRig().signature(Data([1]))
        await expect(.invalidSignature) { try await verify(forged) }
        for signature in [Data(), Data([0x30]), Data([0x00, 0x18]), Data(repeating: 0x30, count: 200)] {
            forged.signature = signature
            await expect(.invalidSignature) { try await verify(forged) }
        }
        let statement = try statement()
        await expect(.wrongChallenge) {
            try await verify(statement, key: try AttestationRig().deviceKey)
        }
        let rsa = DevicePublicKey.rs256(modulus: Data(repeating: 0xff, count: 256), exponent: Data([3]))
        await expect(.wrongChallenge) { try await verify(statement, key: rsa) }
    }

    @Test func `keys of other kinds are refused`() async throws {
        var forged = try statement()
        for (range, bytes) in [
            (0..<2, [0x00, 0x01]), (10..<12, [0x00, 0x06, 0x00, 0x80, 0x00, 0x43]), (12..<14, [0x00, 0x1a]),
            (14..<16, [0x00, 0x0c]), (16..<18, [0x00, 0x04]), (18..<20, [0x00, 0x20, 0x00, 0x0b]),
            (87..<88, [0x00]), (88..<88, [0x00]),
        ] as [(Range<Int>, [UInt8])] {
            var area = try statement().area
            area.replaceSubrange(range, with: bytes)
            forged.area = area
            await expect(.wrongKey) { try await verify(forged) }
        }
        // SHA-384 for the Name.
        forged.area = AttestationRig.area(
            rig.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0072), nameAlgorithm: .sha384)
        forged.name = [0x00, 0x0c] + Array(SHA384.hash(data: forged.area))
        await expect(.wrongKey) { try await verify(forged) }
        forged.area = AttestationRig.area(
            P256.Signing.PrivateKey().publicKey, attributes: ObjectAttributes(rawValue: 0x0004_0072))
        forged.name = nil
        await expect(.wrongKey) { try await verify(forged) }
        #expect(try await verify(statement(scheme: .null)).presence == .pin)
    }

    @Test func `the data of WebAuthn must be the server's`() async throws {
        for flags: UInt8 in [0x05, 0x00, 0xc5, 0x47, 0x65] {
            var forged = try statement()
            forged.flags = flags
            await expect(.wrongChallenge) { try await verify(forged) }
        }
        for flags: UInt8 in [0x40, 0x41, 0x45] {
            var forged = try statement()
            forged.flags = flags
            #expect(try await verify(forged).presence == .pin)
        }
        var forged = try statement()
        forged.authenticatorData = Data(count: 30)
        await expect(.wrongChallenge) { try await verify(forged) }
        for wrong in [
            AttestationRig.expectation(challenge: Data(count: 7)), AttestationRig.expectation(challenge: Data(count: 65)),
            AttestationRig.expectation(challenge: Data(count: 32)), AttestationRig.expectation(origin: "null"),
        ] {
            await expect(.wrongChallenge) { try await verify(try statement(), wrong) }
        }
    }

    @Test func `the creation must match, and be new where required`() async throws {
        var forged = try statement()
        forged.type = 0x801a
        let data = Data(
            TPMWriter(
                UInt32(0), TPM2B([]), UInt8(1), UInt16(11), TPM2B([0, 11]), TPM2B([0, 11]),
                TPM2B(Array(AttestationRig.challenge))
            ).bytes)
        forged.second = Array(SHA256.hash(data: data))
        let new = AttestationRig.expectation(requiresNewKey: true)
        #expect(try await verify(forged).presence == .pin)
        await expect(.wrongCreation) { try await verify(forged, new) }
        forged.creationData = data
        #expect(try await verify(forged, new).presence == .pin)
        forged.creationData = data + Data([0])
        await expect(.wrongCreation) { try await verify(forged) }
        forged.second = Array(SHA256.hash(data: data + Data([0])))
        #expect(try await verify(forged).presence == .pin)
        await expect(.wrongCreation) { try await verify(forged, new) }
        await expect(.wrongCreation) { try await verify(try statement(), new) }
    }

    @Test func `an attestation key without a trusted certificate is refused`() async throws {
        func expectUntrusted(
            _ certificate: Data, anchors: AttestationAnchors? = nil, time: Date = AttestationRig.time,
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            var forged = try statement()
            forged.certificates = [certificate]
            await expect(.untrustedAttestationKey, sourceLocation: sourceLocation) {
                try await verify(forged, anchors: anchors, time: time)
            }
        }
        let good = try rig.attestationKeyCertificate()
        try await expectUntrusted(good, anchors: AttestationAnchors())
        try await expectUntrusted(good, anchors: AttestationAnchors(aik: .init(roots: [AttestationRig().authorityCertificate()])))
        // The roots of manufacturers do not vouch for attestation keys.
        try await expectUntrusted(good, anchors: AttestationAnchors(tpm: .init(roots: [rig.authorityCertificate()])))
        try await expectUntrusted(good, time: AttestationRig.time + 86_400 * 91)
        try await expectUntrusted(good, time: AttestationRig.time - 301)
        try await expectUntrusted(rig.attestationKeyCertificate(subject: AttestationRig.name))
        try await expectUntrusted(rig.attestationKeyCertificate(by: P256.Signing.PrivateKey()))
        try await expectUntrusted(Data([0x30, 0x00]))
        for extensions in [
            try AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1]),
            try AttestationRig.attestationKeyExtensions(without: 0), try AttestationRig.attestationKeyExtensions(without: 2),
            try AttestationRig.attestationKeyExtensions(isAuthority: true), Certificate.Extensions(),
            try AttestationRig.attestationKeyExtensions(more: [.init(oid: [1, 2, 3], critical: true, value: [5, 0])]),
        ] {
            try await expectUntrusted(rig.attestationKeyCertificate(extensions: extensions))
        }
        let harmless = try AttestationRig.attestationKeyExtensions(more: [.init(oid: [1, 2, 3], critical: false, value: [5, 0])])
        var forged = try statement()
        forged.certificates = [try rig.attestationKeyCertificate(extensions: harmless)]
        #expect(try await verify(forged).presence == .pin)
    }

    /// Each step repairs the first defect, and the next one is reported.
    @Test func `the checks run in the order of the specification`() async throws {
        let foreign = AttestationRig()
        var forged = try statement(0x0005_0472, policy: [1, 2, 3])
        forged.area = AttestationRig.area(
            foreign.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0005_0472), policy: [1, 2, 3])
        let goodKey = AttestationRig.area(
            rig.key.publicKey, attributes: ObjectAttributes(rawValue: 0x0005_0472), policy: [1, 2, 3])
        let genuine = forged.certificates
        forged.certificates = [try foreign.attestationKeyCertificate(by: rig.authority), Data(count: 3)]
        (forged.magic, forged.type, forged.name) = (1, 1, [0, 11])
        (forged.flags, forged.second, forged.creationData) = (0, [UInt8](repeating: 0, count: 32), Data([1]))
        forged.signature = Data([0x30])
        var requirement = AttestationRequirement(.touch)
        func expectNext(_ code: AttestationError.Code, time: Date = AttestationRig.time) async throws {
            let statement = forged
            await expect(code) {
                try await verify(statement, AttestationRig.expectation(requirement), time: time)
            }
        }
        forged.format = "packed"
        try await expectNext(.unsupportedFormat)
        forged.format = "tpm"
        try await expectNext(.untrustedAttestationKey)
        forged.certificates = genuine
        try await expectNext(.wrongMagic)
        forged.magic = 0xff54_4347
        try await expectNext(.wrongType)
        forged.type = 0x801a
        try await expectNext(.wrongChallenge)
        forged.flags = 0x45
        try await expectNext(.wrongName)
        forged.name = nil
        try await expectNext(.invalidSignature)
        forged.signature = nil
        try await expectNext(.wrongCreation)
        forged.second = Array(SHA256.hash(data: Data([1])))
        try await expectNext(.wrongKey)
        forged.area = goodKey
        try await expectNext(.wrongAttributes)
        forged.area = try statement(0x0004_0072, policy: [1, 2, 3]).area
        try await expectNext(.wrongPolicy)
        forged.area = try statement().area
        try await expectNext(.insufficientPresence)
        requirement = AttestationRequirement(.presence)
        let statement = forged
        #expect(try await verify(statement, AttestationRig.expectation(requirement)).presence == .pin)
    }
}
