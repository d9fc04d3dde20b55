public import FoundationEssentials

/// A verifier's request for a statement about a key.
public struct AttestationRequest: Hashable, Sendable {
    /// The form of the statement.
    public enum Form: Hashable, Sendable {
        /// The hardware created the key (`TPM2_CertifyCreation`), with the challenge as qualifying
        /// data. Needs no proof of the user's presence. No standard uses this form.
        case creation
        /// The same for a server that enrols the key: the qualifying data is that of a WebAuthn
        /// registration, as in ``webAuthn(rpID:origin:)``.
        case enrolment(rpID: String, origin: String)
        /// The key is in the hardware (`TPM2_Certify`), with the challenge as qualifying data. A
        /// TPM requires the PIN of a key with its own PIN, also in the two forms below.
        case certify
        /// A WebAuthn registration of the format `tpm` (WebAuthn Level 3 section 8.3): the
        /// challenge is the server's token, and the credential ID is the bytes of the key's
        /// identifier.
        /// - rpID: The host of the server.
        /// - origin: The server's origin, for example `https://id.example.com`.
        case webAuthn(rpID: String, origin: String)
        /// The response to an ACME challenge of the type `device-attest-01`. The challenge is
        /// SHA-256 of the key authorization.
        case acme
    }

    /// The challenge: 8 to 32 bytes for ``Form/creation``, 8 to 64 bytes for all others.
    public var challenge: Data
    /// The URL of the issuer of the attestation key's certificate; `""` for the attestation key for
    /// local use.
    public var issuer: String
    /// The form of the statement.
    public var form: Form
    /// The text of the prompt for a PIN, if the form needs one.
    public var prompt: PromptContext

    /// Creates a request.
    public init(
        challenge: Data, issuer: String = "", form: Form = .creation,
        prompt: PromptContext = PromptContext(reason: "attest a key")
    ) {
        self.challenge = challenge
        self.issuer = issuer
        self.form = form
        self.prompt = prompt
    }

    /// The permitted lengths of the challenge in bytes.
    package var challengeLengths: ClosedRange<Int> { form == .creation ? 8...32 : 8...64 }

    /// Whether the statement contains the certificate of the attestation key.
    package var needsCertificate: Bool {
        switch form {
        case .creation, .certify: false
        case .enrolment, .webAuthn, .acme: true
        }
    }

    /// Whether the statement is about the creation of the key, which needs no authorization of the
    /// key. All other forms name the key as an object to certify.
    package var isAboutCreation: Bool {
        switch form {
        case .creation, .enrolment: true
        case .certify, .webAuthn, .acme: false
        }
    }

    /// - Throws: ``KeystoreError`` with code `invalidInput` for a challenge of a wrong length.
    package func checkChallenge() throws(KeystoreError) {
        guard challengeLengths.contains(challenge.count) else {
            throw .invalidInput(
                "the challenge has \(challenge.count) bytes and may have \(challengeLengths.lowerBound) to "
                    + "\(challengeLengths.upperBound)")
        }
    }
}

/// A TPM's identity towards one issuer of certificates for attestation keys.
public struct AttestationIdentity: Hashable, Sendable {
    /// The attestation key for the issuer: `TPMT_PUBLIC`.
    public let attestationKey: Data
    /// The certificate of an endorsement key, its issuers' from the TPM, and the certificates of the
    /// other endorsement keys, DER: at most 8, together at most 8192 bytes. A server chooses one of
    /// the keys. **They identify the machine permanently.** Empty if the TPM has no endorsement
    /// certificate whose key it holds.
    public let endorsementCertificates: [Data]
    /// The stored certificate of the attestation key and its issuers', DER. Empty before the
    /// activation.
    public let certificates: [Data]
    /// The time at which the stored certificate of the attestation key becomes valid.
    package let validFrom: Date?
    /// The time at which the stored certificate of the attestation key expires.
    public let expiresAt: Date?

    package init(
        attestationKey: Data, endorsementCertificates: [Data], certificates: [Data] = [],
        validFrom: Date? = nil,
        expiresAt: Date? = nil
    ) {
        self.attestationKey = attestationKey
        self.endorsementCertificates = endorsementCertificates
        self.certificates = certificates
        self.validFrom = validFrom
        self.expiresAt = expiresAt
    }

    /// Whether to activate the attestation key now: it has no certificate, or two thirds of the
    /// certificate's time of validity have passed. A certificate that is not valid any more counts
    /// as none.
    public func needsActivation(at now: Date = Date()) -> Bool {
        guard !certificates.isEmpty, let validFrom, let expiresAt else { return true }
        return now.timeIntervalSince(validFrom) >= expiresAt.timeIntervalSince(validFrom) * 2 / 3
    }
}

/// An issuer's message for a TPM: the parameters of `TPM2_ActivateCredential`, each without the
/// size in front of a `TPM2B`.
public struct ActivationChallenge: Hashable, Sendable {
    /// `TPMS_ID_OBJECT`.
    public var credentialBlob: Data
    /// The seed, encrypted to the endorsement key.
    public var encryptedSecret: Data

    /// Creates a message.
    public init(credentialBlob: Data, encryptedSecret: Data) {
        self.credentialBlob = credentialBlob
        self.encryptedSecret = encryptedSecret
    }
}
