import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import TPM2
import Testing

@testable import LatchkeyRelyingParty

/// A server that requires a finger, a TPM that it trusts, and another TPM whose authority has the
/// same names.
final class RefusalRig {
    /// What came of an attempt.
    enum Outcome: Equatable {
        case accepted(AssuranceLevel.EnforcedPresence)
        case refused(AttestationError.Code)
        /// The TPM's response code.
        case tpm(UInt32)
        /// The TPM did it.
        case done
    }

    /// One attempt of section 7.
    struct Attempt {
        let number: Int
        let title: String
        let expected: Outcome
        let run: (RefusalRig) async throws -> Outcome

        init(
            _ number: Int, _ title: String, _ expected: Outcome,
            _ run: @escaping (RefusalRig) async throws -> Outcome
        ) {
            (self.number, self.title, self.expected, self.run) = (number, title, expected, run)
        }
    }

    /// A statement and its signature.
    struct Said {
        var bytes: Data
        let signature: Data

        init(_ said: SignedAttest) { self.init(Data(said.bytes), said.signature) }

        init(_ bytes: Data, _ signature: TPMSignature) {
            (self.bytes, self.signature) = (bytes, Data(signature.marshalled))
        }
    }

    let challenge = Data(SecretBytes.random(count: 32).withUnsafeBytes { Data($0) })
    let software = P256.Signing.PrivateKey()
    let own: RawTPM
    let foreign: RawTPM
    let ownAuthority: AttestationAnchors.Group
    let foreignAuthority: AttestationAnchors.Group
    /// It trusts both TPMs.
    let authority: EndorsementAuthority
    private let issuer: AttestationIssuer
    /// An activated attestation key and its certificates.
    let attestationKey: RawTPM.Key
    let chain: [Data]
    /// The approval key that the server knows.
    let finger: RawTPM.Finger
    /// A key that only a finger opens, and the statement about it.
    let good: (key: RawTPM.Key, said: Said)

    static let gated = RawTPM.born.union(RawTPM.gated)
    static let open: ObjectAttributes = RawTPM.born.union([.userWithAuth, .noDA])

    init(_ own: SoftwareTPM, _ foreign: SoftwareTPM) throws {
        let made = try AttestationIssuer.generate(name: "Example AIK CA", at: Date())
        issuer = try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
        ownAuthority = try ActivationTests.authority(of: own)
        foreignAuthority = try ActivationTests.authority(of: foreign)
        self.own = try RawTPM(own)
        self.foreign = try RawTPM(foreign)
        authority = EndorsementAuthority(
            anchors: AttestationAnchors(tpm: .init([ownAuthority, foreignAuthority])),
            issuer: issuer)
        attestationKey = try self.own.createAttestationKey()
        chain = try Self.activate(attestationKey, in: self.own, at: authority)
        finger = try RawTPM.Finger(self.own.create(RawTPM.signingArea(Self.open)))
        let key = try self.own.create(RawTPM.signingArea(Self.gated, finger.branches))
        good = (
            key,
            Said(try self.own.certify(key, by: attestationKey, challenge: Array(challenge)))
        )
    }

    /// Activates an attestation key.
    ///
    /// - Returns: Its certificate and the issuer's.
    static func activate(
        _ key: RawTPM.Key, in tpm: RawTPM, at authority: EndorsementAuthority
    ) throws -> [Data] {
        let (challenge, pending) = try authority.challenge(
            endorsement: [tpm.endorsementCertificate], attestationKey: Data(key.area.marshalled))
        let secret = try tpm.with(key) { (object) throws(TPMError) in
            try tpm.activate(
                object, blob: challenge.credentialBlob, secret: challenge.encryptedSecret)
        }
        return try authority.certificate(for: pending, secret: secret)
    }

    /// Creates a key and certifies it.
    func certified(
        _ attributes: ObjectAttributes, _ branches: [PolicyDigest]
    ) throws(TPMError) -> (key: RawTPM.Key, said: Said) {
        try certified(own.create(RawTPM.signingArea(attributes, branches)))
    }

    func certified(_ key: RawTPM.Key) throws(TPMError) -> (key: RawTPM.Key, said: Said) {
        (key, Said(try own.certify(key, by: attestationKey, challenge: Array(challenge))))
    }

    /// A statement about the creation of a key, which needs no authorization of the key.
    func created(_ key: RawTPM.Key) throws -> (key: RawTPM.Key, said: Said) {
        let created = try #require(key.created)
        return try own.with(key) { (object) throws(TPMError) in
            try own.with(attestationKey) { (signer) throws(TPMError) in
                (
                    key,
                    Said(
                        try own.tpm.execute(
                            CertifyCreation(
                                of: object, creationHash: created.creationHash,
                                creationTicket: created.creationTicket,
                                challenge: Array(challenge), by: signer)))
                )
            }
        }
    }

    /// Verifies a statement as the server does.
    ///
    /// - Parameters:
    ///   - presence: The branches that it declares.
    ///   - knowsBroker: Whether the server knows ``finger``.
    func verify(
        _ attested: (key: RawTPM.Key, said: Said), _ presence: String?, knowsBroker: Bool = true,
        require level: AttestationRequirement.Level = .finger, challenge: Data? = nil,
        certificates: [Data]? = nil
    ) async throws -> Outcome {
        try await verify(
            attested.said, Data(attested.key.area.marshalled), presence, knowsBroker: knowsBroker,
            require: level,
            challenge: challenge, certificates: certificates)
    }

    func verify(
        _ said: Said, _ area: Data, _ presence: String?, knowsBroker: Bool = true,
        require level: AttestationRequirement.Level = .finger, challenge: Data? = nil,
        certificates: [Data]? = nil
    ) async throws -> Outcome {
        let members: [(String, CBOR)] = [
            ("alg", .negative(7)), ("sig", .bytes(said.signature)), ("ver", .text("2.0")),
            ("x5c", .array((certificates ?? chain).map(CBOR.bytes))), ("pubArea", .bytes(area)),
            ("certInfo", .bytes(said.bytes)),
        ]
        let object = CBOR.map([("fmt", .text("tpm")), ("attStmt", .map(members))]).encoded
        let verifier = AttestationVerifier(
            anchors: AttestationAnchors(aik: try .init(roots: [issuer.certificate])),
            approvalKeys: ListedApprovalKeys(
                knowsBroker ? [Data(try finger.approvalKey.name.bytes)] : []))
        let verdict = try await verifier.verify(
            AttestationStatement(
                json: ForgedStatement.json(object, clientData: nil, presence: presence)),
            of: .es256(P256Area(area).publicKey),
            for: AttestationExpectation(
                challenge: challenge ?? self.challenge, binding: .qualifyingData,
                requirement: .init(level)))
        return .accepted(try #require(verdict.presence))
    }

    /// The certificate that a server without a check of the key's attributes would issue.
    func certificateWithoutChecks(for key: RawTPM.Key) throws -> [Data] {
        let endorsement = try EndorsementCertificate(
            [own.endorsementCertificate], anchors: AttestationAnchors(tpm: ownAuthority),
            time: Int64(Date().timeIntervalSince1970))
        let publicKey = try P256Area(Data(key.area.marshalled)).publicKey
        let issued = try issuer.issuer.issue(
            for: publicKey, in: endorsement.attributes, at: Date(), days: 1)
        return [issued, issuer.certificate]
    }

    /// The outcome of an attempt, also one that throws.
    func outcome(of attempt: Attempt) async throws -> Outcome {
        defer { for tpm in [own, foreign] { tpm.flush() } }
        do {
            return try await attempt.run(self)
        } catch let error as AttestationError {
            return .refused(error.code)
        } catch let error as TPMError {
            return .tpm(try #require(error.responseCode, "\(error)").rawValue)
        }
    }
}
