import Foundation
import Latchkey
import TPM2
import Testing

@testable import LatchkeyRelyingParty

@Suite("Attestations on the wire") struct AttestationStatementTests {
    private func expect(
        _ code: AttestationError.Code, _ json: Data,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            try AttestationStatement(json: json)
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    private func good() throws -> Data {
        let key = Base64URL.encode(try AttestationVectors.bytes("broker.public"))
        return ForgedStatement.json(
            try AttestationVectors.bytes("webauthn.object"),
            clientData: try AttestationVectors.bytes("webauthn.cd"),
            presence:
                #"{"version":1,"branches":[{"type":"signed","key":"\#(key)","user":1000,"requirement":"biometry-any"}]}"#
        )
    }

    @Test func `the parts of a statement are read`() throws {
        let object = try AttestationStatement(json: good())
        guard case .tpm(let statement) = object.content else {
            Issue.record("the statement is not a TPM's")
            return
        }
        #expect(statement.certificates == [try AttestationVectors.bytes("aik.certificate")])
        #expect(statement.certInfo == (try AttestationVectors.bytes("webauthn.certInfo")))
        #expect(statement.publicArea == (try AttestationVectors.bytes("webauthn.pubArea")))
        #expect(statement.authenticatorData == (try AttestationVectors.bytes("webauthn.ad")))
        #expect(statement.clientData == (try AttestationVectors.bytes("webauthn.cd")))
        #expect(statement.creationData == nil)
        #expect(statement.branches.count == 1)
        #expect(!statement.endsWithAuthValue)
    }

    @Test func `an unknown format is refused`() {
        expect(.unsupportedFormat, Data(#"{"format":"android-key"}"#.utf8))
        for version in ["1.2", ""] {
            let object = CBOR.map([
                ("fmt", .text("tpm")), ("attStmt", .map([("ver", .text(version))])),
            ]).encoded
            expect(.unsupportedFormat, ForgedStatement.json(object, clientData: nil, presence: nil))
        }
        let object = CBOR.map([("fmt", .text("packed")), ("attStmt", .map([]))]).encoded
        expect(.unsupportedFormat, ForgedStatement.json(object, clientData: nil, presence: nil))
    }

    /// What Windows Hello sends (-65535, RS1), another algorithm, and objects without a member.
    @Test func `the flaw of an attestation object is named`() {
        func detail(without name: String = "", _ algorithm: CBOR = .negative(7)) -> String? {
            let members: [(String, CBOR)] = [
                ("ver", .text("2.0")), ("alg", algorithm), ("x5c", .array([])),
                ("sig", .bytes(Data())), ("certInfo", .bytes(Data())), ("pubArea", .bytes(Data())),
            ]
            let object = CBOR.map([
                ("fmt", .text("tpm")), ("attStmt", .map(members.filter { $0.0 != name })),
            ]).encoded
            let json = ForgedStatement.json(object, clientData: nil, presence: nil)
            return #expect(throws: AttestationError.self) { try AttestationStatement(json: json) }?
                .detail
        }
        for algorithm in [65535, 257, 35] {
            #expect(
                detail(.negative(algorithm))
                    == "the statement is signed with the algorithm -\(algorithm); only -7 (ES256) is supported"
            )
        }
        for name in ["alg", "x5c", "sig", "certInfo", "pubArea"] {
            #expect(detail(without: name) == "the attestation object has no member ‘\(name)’")
        }
        #expect(detail(.text("ES256")) == "the member ‘alg’ is not an integer")
    }

    @Test func `a large or complex statement is refused before it is parsed`() throws {
        let good = try good()
        let padding = Data(repeating: 0x20, count: AttestationStatement.maximumBytes - good.count)
        #expect(throws: Never.self) { try AttestationStatement(json: good + padding) }
        expect(.malformed, good + padding + Data([0x20]))
        for filler in ["[", "{\"a\":", "0,", "[[],"] {
            let text = #"{"format":"tpm","x":["# + String(repeating: filler, count: 600)
            let error = #expect(throws: AttestationError.self) {
                try AttestationStatement(json: Data(text.utf8))
            }
            #expect(
                error?.detail
                    == "the attestation is not the expected JSON: the JSON has too many values")
        }
    }

    @Test(arguments: [
        "", "null", "[]", "{}", #"{"format":7}"#, #"{"format":"tpm"}"#,
        #"{"format":"tpm","object":"!"}"#,
        #"{"format":"tpm","object":""}"#, #"{"format":"piv"}"#,
        #"{"format":"piv","certificates":[]}"#,
        #"{"format":"piv","certificates":["MA","!"]}"#,
        #"{"format":"tpm","object":"oA","presence":{"version":2,"branches":[]}}"#,
        #"{"format":"tpm","object":"oA","presence":{"version":1,"branches":[{"type":"signed"}]}}"#,
        #"{"format":"tpm","object":"oA","presence":{"version":1,"branches":[{"type":"pin"}]}}"#,
    ]) func `text that is not a statement is malformed`(text: String) {
        expect(.malformed, Data(text.utf8))
    }

    @Test func `more branches than PolicyOR has are malformed`() throws {
        func presence(_ count: Int) -> String {
            let branches = [String](repeating: #"{"type":"other"}"#, count: count).joined(
                separator: ",")
            return #"{"version":1,"branches":[\#(branches)]}"#
        }
        let object = try AttestationVectors.bytes("webauthn.object")
        #expect(throws: Never.self) {
            try AttestationStatement(
                json: ForgedStatement.json(object, clientData: nil, presence: presence(8)))
        }
        expect(.malformed, ForgedStatement.json(object, clientData: nil, presence: presence(9)))
    }

    @Test(arguments: [
        "", "a0", "9f", "a1", "1b0000000000000000", "a2613001613001", "a10000", "1800", "190001",
        "f5", "fb00", "c000",
        "61ff", "9affffffff",
        "5affffffff", "8181818100", "0000", "a16130",
    ]) func `CBOR that is not in the accepted subset is refused`(hex: String) throws {
        let bytes = Array(try #require(Data(hex: hex)))
        if hex == "a0" {
            #expect(try CBORReader.read(bytes[...]) == .map([:]))
        } else {
            #expect(throws: CBORReader.Malformed.self) { try CBORReader.read(bytes[...]) }
        }
    }

    @Test
    func
        `every prefix and many random changes of a statement are refused or read, without a verdict`()
        async throws
    {
        var generator = SplitMix(state: 20)
        let object = try AttestationVectors.bytes("webauthn.object")
        let key = DevicePublicKey.es256(
            try P256Area(AttestationVectors.bytes("webauthn.pubArea")).publicKey)
        let verifier = try AttestationVerifier(
            anchors: AttestationAnchors(aik: .init(roots: [AttestationVectors.bytes("aik.ca")])),
            approvalKeys: ListedApprovalKeys([AttestationVectors.bytes("broker.name")]),
            clock: WallClock { AttestationVectors.time })
        let approvalKey = Base64URL.encode(try AttestationVectors.bytes("broker.public"))
        let branches =
            #"[{"type":"signed","key":"\#(approvalKey)","user":1000,"requirement":"biometry-any"}]"#
        let expectation = AttestationRig.expectation(
            .init(.finger), challenge: try AttestationVectors.bytes("webauthn.challenge"),
            keyID: try AttestationVectors.bytes("webauthn.cid"))
        func verify(_ object: Data) async throws -> AttestationVerdict {
            let json = ForgedStatement.json(
                object, clientData: try AttestationVectors.bytes("webauthn.cd"),
                presence: #"{"version":1,"branches":\#(branches)}"#)
            return try await verifier.verify(
                AttestationStatement(json: json), of: key, for: expectation)
        }
        #expect(try await verify(object).presence == .finger)
        for count in 0..<object.count {
            let error = await #expect(throws: AttestationError.self) {
                try await verify(object.prefix(count))
            }
            #expect(error?.code == .malformed, "\(count) bytes")
        }
        for index in object.indices {
            var changed = object
            changed[index] ^= 1 << UInt8.random(in: 0...7, using: &generator)
            await #expect(throws: AttestationError.self, "byte \(index)") {
                try await verify(changed)
            }
        }
        for _ in 0..<2000 {
            var changed = object
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                changed[Int.random(in: 0..<changed.count, using: &generator)] = .random(
                    in: 0...255, using: &generator)
            }
            guard changed != object else { continue }
            await #expect(throws: AttestationError.self) { try await verify(changed) }
        }
    }
}

/// A repeatable source of random numbers (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators").
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }
}
