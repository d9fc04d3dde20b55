import Foundation
import Latchkey
import LatchkeyRelyingParty

/// The proof that new keys are in hardware, for a server that has its own users and sessions.
struct KeyProof: Sendable {
    let requirement = AttestationRequirement(.presence)
    private let issuer: String
    private let authority: EndorsementAuthority
    private let verifier: AttestationVerifier

    /// - Parameters:
    ///   - directory: The anchors.
    ///   - certificate: The certificate of the server's authority, DER.
    ///   - privateKey: Its private key, PEM.
    ///   - brokers: The Names of the presence brokers' approval keys.
    init(
        issuer: String, anchors directory: String, certificate: Data, privateKey: String,
        brokers: Set<Data>
    ) throws {
        let anchors = try AttestationAnchors(directory: directory)
        for error in anchors.skipped { print(error) }
        self.issuer = issuer
        authority = EndorsementAuthority(
            anchors: anchors,
            issuer: try AttestationIssuer(certificate: certificate, privateKey: privateKey))
        verifier = AttestationVerifier(
            anchors: anchors, approvalKeys: ListedApprovalKeys(brokers))
    }

    /// `POST A/activation`. Keep the activation in memory, under a random ID and with the session's
    /// user, until the answer or for 60 seconds.
    func begin(certificates: [Data], attestationKey: Data) throws -> (
        EndorsementAuthority.Challenge, PendingActivation
    ) {
        try authority.challenge(endorsement: certificates, attestationKey: attestationKey)
    }

    /// `POST A/activation/{id}`: the member `x5c` of the answer.
    func finish(_ activation: PendingActivation, secret: Data) throws -> [Data] {
        try authority.certificate(for: activation, secret: secret)
    }

    /// The token endpoint: verifies the form member `attestation` after the set-up request, and
    /// before the registry gets the device.
    func verify(_ attestation: String?, of request: BiometricRequest, _ setup: SetupProof)
        async throws -> AttestationVerdict
    {
        guard let attestation else {
            throw OAuthError("attestation_required", "an attestation of the key is required")
        }
        return try await verifier.verify(
            AttestationStatement(json: Data(attestation.utf8)), of: setup.key,
            for: try AttestationExpectation(
                of: request, kid: setup.kid, issuer: issuer, requirement: requirement))
    }
}
