import Crypto
import Foundation
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import LatchkeyRelyingParty

@Suite("Enrolment of approval keys") struct ApprovalKeyEnrolmentTests {
    private let rig = AttestationRig()
    private let time = SettableClock(stoppedAt: AttestationRig.time)
    private let challenges: DatabaseChallengeStore
    private let registry: DatabaseApprovalKeyRegistry

    init() async throws {
        let database = try await TestDatabase.open(
            DatabaseApprovalKeyRegistry.migrations + DatabaseChallengeStore.migrations)
        challenges = DatabaseChallengeStore(database, clock: time.clock)
        registry = DatabaseApprovalKeyRegistry(database, clock: time.clock)
    }

    private var name: Data { Data(AttestationRig.tpmName(of: rig.approvalArea())) }

    /// Records the rig's attestation key, as the authority does when it certifies it.
    private func record() async throws {
        try await registry.record(
            PublicKey(x963Representation: rig.attestationKey.publicKey.x963Representation),
            in: Data(repeating: 1, count: 32), isSimulated: false, until: time.now + 100)
    }

    /// A statement about the approval key, with the bytes of a token as qualifying data.
    private func statement(
        about challenge: String, attributes: UInt32 = 0x0004_0472
    ) throws -> AttestationStatement {
        let area = rig.approvalArea(attributes)
        let certInfo = AttestationRig.certInfo(
            extraData: Data(challenge.utf8), name: AttestationRig.tpmName(of: area))
        let members: [(String, CBOR)] = [
            ("ver", .text("2.0")), ("alg", .negative(7)),
            (
                "x5c",
                .array([
                    .bytes(try rig.attestationKeyCertificate()),
                    .bytes(try rig.authorityCertificate()),
                ])
            ),
            ("sig", .bytes(try rig.signature(certInfo))), ("certInfo", .bytes(certInfo)),
            ("pubArea", .bytes(area)),
        ]
        let object = CBOR.map([("fmt", .text("tpm")), ("attStmt", .map(members))]).encoded
        return try AttestationStatement(
            json: ForgedStatement.json(object, clientData: nil, presence: nil))
    }

    private func enrol(_ challenge: String, statementChallenge: String? = nil) async throws -> Data
    {
        try await registry.enrol(
            statement(about: statementChallenge ?? challenge), challenge: challenge, of: challenges,
            verifiedBy: rig.verifier(), acceptsSimulated: false)
    }

    private func expect(
        _ code: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            try await body()
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test func `a statement enrols its key with an unused challenge for this purpose only`()
        async throws
    {
        try await record()
        let own = try await challenges.issue(.approvalKeyRequest).token
        let other = try await challenges.issue(.approvalKeyRequest).token
        let biometric = try await challenges.issue(.biometricRequest).token
        await expect(.wrongChallenge) { _ = try await enrol("0123456789ABCDEFGHJKMNPQRSTVWXYZ") }
        await expect(.wrongChallenge) { _ = try await enrol(biometric) }
        // The refused statement uses the challenge.
        await expect(.wrongChallenge) { _ = try await enrol(other, statementChallenge: own) }
        await expect(.wrongChallenge) { _ = try await enrol(other) }
        #expect(try await !registry.isEnrolled(name))
        #expect(try await enrol(own) == name)
        #expect(try await registry.isEnrolled(name))
        await expect(.wrongChallenge) { _ = try await enrol(own) }
    }

    @Test(arguments: [0x0004_04f2, 0x0004_0432, 0x0004_04b2] as [UInt32])
    func `an approval key that a policy authorizes is refused`(_ attributes: UInt32) async throws {
        try await record()
        let token = try await challenges.issue(.approvalKeyRequest).token
        await expect(.wrongPolicy) {
            try await registry.enrol(
                statement(about: token, attributes: attributes), challenge: token, of: challenges,
                verifiedBy: rig.verifier(), acceptsSimulated: false)
        }
        #expect(try await registry.all().isEmpty)
    }

    @Test func `an expired challenge enrols nothing`() async throws {
        let expired = try await challenges.issue(.approvalKeyRequest).token
        time.advance(by: Challenge.lifetime)
        try await record()
        await expect(.wrongChallenge) { _ = try await enrol(expired) }
        #expect(try await !registry.isEnrolled(name))
    }

    @Test func `an attestation key without a valid record enrols nothing`() async throws {
        let first = try await challenges.issue(.approvalKeyRequest).token
        await expect(.untrustedAttestationKey) { _ = try await enrol(first) }
        try await record()
        time.advance(by: 100)
        let second = try await challenges.issue(.approvalKeyRequest).token
        await expect(.untrustedAttestationKey) { _ = try await enrol(second) }
        #expect(try await !registry.isEnrolled(name))
    }

    @Test(arguments: [0, 31, 33]) func `a digest or Name of another length is refused`(count: Int)
        async throws
    {
        let key = try PublicKey(x963Representation: rig.attestationKey.publicKey.x963Representation)
        await expect(.malformed) {
            try await registry.record(
                key, in: Data(repeating: 1, count: count), isSimulated: false, until: time.now + 100
            )
        }
        #expect(try await !registry.enrol(name, inTPMOf: key))
        try await record()
        await expect(.malformed) { _ = try await registry.enrol(Data(count: count), inTPMOf: key) }
        #expect(try await registry.enrol(name, inTPMOf: key), "the control")
    }
}
