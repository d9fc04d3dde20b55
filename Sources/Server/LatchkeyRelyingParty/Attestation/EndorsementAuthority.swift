#if Certificates || Testing || Programs
    internal import Crypto
    public import FoundationEssentials
    public import Latchkey
    internal import Synchronization

    /// Certifies the attestation keys of TPMs: the activation of an attestation key.
    ///
    /// The server sends the client a secret that only the TPM of an endorsement certificate can
    /// open, and only if the attestation key is in the same TPM (`TPM2_ActivateCredential`). A
    /// client that returns the secret gets a certificate for the attestation key, which
    /// ``AttestationVerifier`` accepts with the issuer's certificate as an anchor.
    ///
    /// The certificate of an endorsement key identifies a machine permanently. Store it only if you
    /// need rules per machine.
    public struct EndorsementAuthority: Sendable {
        /// A message for the TPM. Both values are contents without the size field in front of a
        /// `TPM2B`.
        public struct Challenge: Hashable, Sendable {
            /// The content of the parameter `credentialBlob` of `TPM2_ActivateCredential`: a
            /// `TPMS_ID_OBJECT`, 68 or 84 bytes.
            public let credentialBlob: Data
            /// The content of its parameter `secret`: a `TPMS_ECC_POINT` of 68 or 100 bytes, or 256
            /// bytes for an RSA key.
            public let encryptedSecret: Data
        }

        private let anchors: AttestationAnchors
        private let issuer: AttestationIssuer
        private let simulatedIssuer: AttestationIssuer?
        private let certificateDays: Int
        private let clock: WallClock

        /// Creates an authority.
        ///
        /// - Parameters:
        ///   - anchors: `tpm` and `simulated` are the roots of endorsement certificates.
        ///   - issuer: Issues the certificates of keys in TPMs. Add its certificate to the
        ///     verifier's anchors `aik`.
        ///   - simulatedIssuer: Issues the certificates of keys in simulators. Add its certificate
        ///     to the verifier's anchors `simulated`. nil refuses simulators.
        ///   - certificateDays: The number of days in which a certificate is valid, at least 1.
        public init(
            anchors: AttestationAnchors, issuer: AttestationIssuer,
            simulatedIssuer: AttestationIssuer? = nil,
            certificateDays: Int = 90
        ) {
            self.init(
                anchors: anchors, issuer: issuer, simulatedIssuer: simulatedIssuer,
                certificateDays: certificateDays,
                clock: .system)
        }

        package init(
            anchors: AttestationAnchors, issuer: AttestationIssuer,
            simulatedIssuer: AttestationIssuer?,
            certificateDays: Int, clock: WallClock
        ) {
            self.anchors = anchors
            self.issuer = issuer
            self.simulatedIssuer = simulatedIssuer
            self.certificateDays = max(1, certificateDays)
            self.clock = clock
        }

        /// Begins an activation.
        ///
        /// - Parameters:
        ///   - endorsement: The certificate of the endorsement key and any intermediates, DER with
        ///     or without padding, at most 8 of at most 4096 bytes, 8192 together.
        ///   - attestationKey: The attestation key, `TPMT_PUBLIC`: a restricted P-256 key with
        ///     SHA-256.
        /// - Returns: The message for the TPM, and the state to keep until the client answers.
        /// - Throws: ``AttestationError`` with code `malformed`, `wrongEndorsement`,
        ///   `untrustedEndorsement`, `chainTooLong`, `unsupportedCertificate`,
        ///   `certificateExpired`, `simulated` or `unrestrictedAttestationKey`.
        public func challenge(
            endorsement: [Data], attestationKey: Data
        ) throws(AttestationError) -> (Challenge, PendingActivation) {
            let now = clock.now
            let certificate = try EndorsementCertificate(
                endorsement, anchors: anchors, time: Int64(clock.seconds))
            guard !certificate.isSimulated || simulatedIssuer != nil else {
                throw AttestationError(.simulated, "the endorsement key is a simulator's")
            }
            let area = try P256Area(attestationKey: attestationKey)
            let secret = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) }
            let credential = try ProtectedCredential(secret, for: certificate.key, name: area.name)
            let pending = PendingActivation(
                secret: secret, attestationKey: area.publicKey, endorsement: certificate,
                expiresAt: now.addingTimeInterval(PendingActivation.lifetime))
            return (
                Challenge(
                    credentialBlob: credential.blob, encryptedSecret: credential.encryptedSeed),
                pending
            )
        }

        /// Ends an activation: issues the certificate of the attestation key, if the secret is
        /// right.
        ///
        /// Only the first call for a pending activation can succeed, also if its secret is wrong.
        ///
        /// - Parameter secret: The 32 bytes that the client's TPM returned.
        /// - Returns: The certificate and the issuer's, DER: the member `x5c` of an attestation
        ///   object.
        /// - Throws: ``AttestationError`` with code `activationFailed`.
        public func certificate(
            for pending: PendingActivation, secret: Data
        ) throws(AttestationError) -> [Data] {
            guard pending.use() else {
                throw AttestationError(.activationFailed, "the activation was used already")
            }
            guard clock.now < pending.expiresAt else {
                throw AttestationError(.activationFailed, "the activation has expired")
            }
            guard constantTimeEqual(Array(SHA256.hash(data: secret)), pending.secretDigest) else {
                throw AttestationError(
                    .activationFailed, "the secret is not that of the activation")
            }
            guard let issuer = pending.isSimulated ? simulatedIssuer : issuer else {
                throw AttestationError(.activationFailed, "there is no issuer for simulators")
            }
            do {
                let issued = try issuer.issuer.issue(
                    for: pending.attestationKey, in: pending.tpm, at: clock.now,
                    days: certificateDays)
                return [issued, issuer.certificate]
            } catch {
                throw AttestationError(
                    .activationFailed, "the certificate cannot be issued: \(error)")
            }
        }
    }

    extension EndorsementAuthority {
        /// Ends an activation like ``certificate(for:secret:)``, and then records the TPM of the
        /// attestation key in a registry, so that the approval key of its presence broker can be
        /// enrolled. Nothing is recorded unless the secret is right.
        ///
        /// - Parameters:
        ///   - pending: The activation.
        ///   - secret: The 32 bytes that the client's TPM returned.
        ///   - registry: The registry that gets a digest of the endorsement key, until the
        ///     certificate expires.
        /// - Returns: The certificate and the issuer's, DER.
        /// - Throws: ``AttestationError`` with code `activationFailed`, or the registry's error.
        ///   The client then begins again.
        public func certificate(
            for pending: PendingActivation, secret: Data,
            recordingIn registry: DatabaseApprovalKeyRegistry
        ) async throws -> [Data] {
            let end = clock.now.addingTimeInterval(Double(certificateDays) * 86_400)
            let chain = try certificate(for: pending, secret: secret)
            try await registry.record(
                pending.attestationKey, in: pending.endorsementKeyDigest,
                isSimulated: pending.isSimulated, until: end)
            return chain
        }
    }

    /// The state of an activation between the server's message and the client's answer. It is valid
    /// for 60 seconds and one answer.
    ///
    /// Its properties are claims of the client until ``EndorsementAuthority`` has issued a
    /// certificate for it.
    public final class PendingActivation: Sendable {
        /// Seconds.
        package static let lifetime: TimeInterval = 60

        /// The attestation key.
        public let attestationKey: PublicKey
        /// SHA-256 of the endorsement key's SubjectPublicKeyInfo, 32 bytes. It identifies the
        /// machine permanently.
        public let endorsementKeyDigest: Data
        /// The time of expiry.
        public let expiresAt: Date
        /// Whether the endorsement key is a simulator's.
        public let isSimulated: Bool
        let tpm: TPMAttributes
        /// SHA-256 of the secret.
        let secretDigest: [UInt8]
        private let isUsed = Mutex(false)

        init(
            secret: Data, attestationKey: PublicKey, endorsement: EndorsementCertificate,
            expiresAt: Date
        ) {
            secretDigest = Array(SHA256.hash(data: secret))
            self.attestationKey = attestationKey
            self.expiresAt = expiresAt
            endorsementKeyDigest = endorsement.keyDigest
            isSimulated = endorsement.isSimulated
            tpm = endorsement.attributes
        }

        init(
            secretDigest: [UInt8], attestationKey: PublicKey, endorsementKeyDigest: Data,
            isSimulated: Bool,
            tpm: TPMAttributes, expiresAt: Date
        ) {
            self.secretDigest = secretDigest
            self.attestationKey = attestationKey
            self.endorsementKeyDigest = endorsementKeyDigest
            self.isSimulated = isSimulated
            self.tpm = tpm
            self.expiresAt = expiresAt
        }

        /// Marks the activation as used.
        ///
        /// - Returns: Whether it was unused.
        fileprivate func use() -> Bool {
            isUsed.withLock { isUsed in
                defer { isUsed = true }
                return !isUsed
            }
        }
    }
#endif
