import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTesting
import SwiftASN1
import TPM2

@testable import LatchkeyTPM

/// A server that certifies attestation keys and verifies attestations, and the client's side of the
/// exchange.
struct EnrolmentRig {
    static let issuer = "https://id.example.com"
    static let form = AttestationRequest.Form.webAuthn(rpID: "id.example.com", origin: issuer)
    /// The form of login and locker.
    static let enrolment = AttestationRequest.Form.enrolment(
        rpID: "id.example.com", origin: issuer)

    let authority: EndorsementAuthority
    let anchors: AttestationAnchors

    /// - Parameters:
    ///   - endorsement: The roots of endorsement certificates; nil for those of the test's software
    ///     TPM.
    ///   - others: Certificates of other issuers for attestation keys, DER.
    init(endorsement: AttestationAnchors.Group? = nil, trusting others: [Data] = [], days: Int = 90)
        throws
    {
        func issuer(_ name: String) throws -> AttestationIssuer {
            let made = try AttestationIssuer.generate(name: name, at: Date())
            return try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
        }
        let (real, simulated) = (try issuer("Example AIK CA"), try issuer("Example simulators"))
        authority = EndorsementAuthority(
            anchors: AttestationAnchors(
                simulated: try endorsement ?? Self.softwareTPM(SoftwareTPM.current)),
            issuer: real, simulatedIssuer: simulated, certificateDays: days)
        anchors = AttestationAnchors(
            aik: try .init(roots: [real.certificate] + others),
            simulated: try .init(roots: [simulated.certificate]))
    }

    /// The authority of a software TPM.
    static func softwareTPM(_ tpm: SoftwareTPM) throws -> AttestationAnchors.Group {
        func certificates(_ path: String) throws -> [Data] {
            let text = String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
            return try PEMDocument.parseMultiple(pemString: text).map { Data($0.derBytes) }
        }
        return try AttestationAnchors.Group(
            roots: certificates(tpm.rootCertificatePath),
            intermediates: certificates(tpm.stateDirectory + "/ca/issuercert.pem"))
    }

    /// Begins an activation: the server's challenge and its state.
    func challenge(
        _ identity: AttestationIdentity
    ) throws -> (challenge: ActivationChallenge, pending: PendingActivation) {
        let (challenge, pending) = try authority.challenge(
            endorsement: identity.endorsementCertificates, attestationKey: identity.attestationKey)
        return (
            ActivationChallenge(
                credentialBlob: challenge.credentialBlob, encryptedSecret: challenge.encryptedSecret
            ),
            pending
        )
    }

    /// Activates the attestation key of a keystore and stores its certificate.
    func enrol(_ keystore: some AttestingKeystore, for issuer: String = issuer) async throws {
        let (challenge, pending) = try challenge(await keystore.attestationIdentity(for: issuer))
        let secret = try await keystore.activate(challenge, for: issuer)
        let certificates = try authority.certificate(
            for: pending, secret: secret.withUnsafeBytes { Data($0) })
        try await keystore.keepAttestationCertificates(certificates, for: issuer)
    }

    /// Attests a key for a random challenge, and verifies the attestation as the server does.
    func verdict(
        on key: HardwareKey, in keystore: some Keystore,
        require level: AttestationRequirement.Level = .none,
        form: AttestationRequest.Form = enrolment, knowing approvalKeys: Set<Data> = [],
        authorizedBy presence: (any PresenceAuthority)? = nil
    ) async throws -> AttestationVerdict {
        let challenge = SecretBytes.random(count: 32).withUnsafeBytes { Data($0) }
        let attestation = try await keystore.attest(
            key, for: AttestationRequest(challenge: challenge, issuer: Self.issuer, form: form),
            authorizedBy: presence)
        return try await verify(
            attestation, of: key, challenge: challenge, require: level, form: form,
            knowing: approvalKeys)
    }

    func verify(
        _ attestation: KeyAttestation, of key: HardwareKey, challenge: Data,
        require level: AttestationRequirement.Level = .none, form: AttestationRequest.Form = form,
        knowing approvalKeys: Set<Data> = []
    ) async throws -> AttestationVerdict {
        let statement = try AttestationStatement(json: attestation.json ?? Data())
        var binding = AttestationExpectation.Binding.qualifyingData
        switch form {
        case .enrolment(let rpID, let origin), .webAuthn(let rpID, let origin):
            binding = .webAuthn(
                rpID: rpID, origin: origin, credentialID: Data(key.id.rawValue.utf8))
        case .creation, .certify, .acme: break
        }
        return try await AttestationVerifier(
            anchors: anchors, approvalKeys: ListedApprovalKeys(approvalKeys)
        ).verify(
            statement, of: .es256(key.publicKey),
            for: AttestationExpectation(
                challenge: challenge, binding: binding,
                requirement: AttestationRequirement(level, acceptsSimulated: true)))
    }

    /// The code of a server's refusal.
    static func refusal(_ body: () async throws -> Void) async -> AttestationError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? AttestationError)?.code
        }
    }
}
