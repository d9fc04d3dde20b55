internal import Crypto
public import FoundationEssentials
public import Latchkey
internal import Synchronization
internal import TPM2

/// The attestation keys of a store: one for each issuer, so that two issuers cannot link the
/// machine by its key.
///
/// Each is a trust anchor. The certificate is stored under another name, and can be replaced.
extension TPMKeystore {
    /// The name of the anchor with the wrapped attestation key for local use, and the prefix of all
    /// others.
    private static let keyAnchor = "tpm/attestation-key"
    private static let certificateAnchor = "tpm/attestation-certificate"
    private static let maximumIssuerBytes = 2048

    private static func name(_ prefix: String, _ issuer: String) -> String {
        issuer.isEmpty ? prefix : "\(prefix)/\(issuer)"
    }

    public func attestationIdentity(for issuer: String) async throws(KeystoreError)
        -> AttestationIdentity
    {
        do throws(KeystoreError) {
            try Self.checkIssuer(issuer)
            let pinned = try await pinnedRoot()
            let root = if let pinned { pinned } else { try await presentRoot() }
            let signer = try await attestationKey(for: issuer, under: root)
            let stored = try await storedCertificates(for: issuer, of: signer)
            let endorsement = try await endorsementKeys()
            return AttestationIdentity(
                attestationKey: Data(signer.key.publicArea.marshalled),
                endorsementCertificates: endorsement?.certificates ?? [],
                certificates: stored.certificates,
                validFrom: stored.facts?.validFrom, expiresAt: stored.facts?.expiresAt)
        } catch { throw error.during("read the TPM's attestation key") }
    }

    public func activate(
        _ challenge: ActivationChallenge, for issuer: String
    ) async throws(KeystoreError) -> SecretBytes {
        do throws(KeystoreError) {
            try Self.checkIssuer(issuer)
            let limit = 512
            guard (1...limit).contains(challenge.credentialBlob.count),
                (1...limit).contains(challenge.encryptedSecret.count)
            else {
                throw .invalidInput("a part of the activation's challenge is empty or too long")
            }
            guard let anchor = try await anchors.anchor(Self.name(Self.keyAnchor, issuer)) else {
                throw KeystoreError(
                    code: .wrongState, reason: "there is no attestation key for ‘\(issuer)’",
                    recovery: "Read the attestation identity first.")
            }
            guard let root = try await pinnedRoot() else { throw Self.otherTPM() }
            let signer = try Self.signer(anchor, root)
            guard let endorsement = try await endorsementKeys() else {
                throw .unsupported(
                    "the TPM has no endorsement key with a certificate",
                    recovery: "Use a TPM with a certificate of its manufacturer.")
            }
            let explain: Explanation = { await explainActivation($0, root) }
            var candidates = endorsement.keys.filter {
                $0.accepts(secretOf: challenge.encryptedSecret.count)
            }
            if candidates.isEmpty { candidates = endorsement.keys }
            return try await withTPM(explainedBy: explain) {
                [candidates] (tpm) throws(TPMError) in
                for key in candidates.dropLast() {
                    do throws(TPMError) {
                        return try tpm.activate(challenge, signer, with: key, under: root)
                    } catch {
                        guard error.isOfAnotherKey else { throw error }
                    }
                }
                return try tpm.activate(
                    challenge, signer, with: candidates[candidates.count - 1], under: root)
            }
        } catch { throw error.during("activate the TPM's attestation key") }
    }

    public func keepAttestationCertificates(
        _ certificates: [Data], for issuer: String
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try Self.checkIssuer(issuer)
            guard let anchor = try await anchors.anchor(Self.name(Self.keyAnchor, issuer)),
                let blob = try? TPMKeyBlob(anchor),
                (1...StoredCertificates.maximumCount).contains(certificates.count),
                certificates.allSatisfy({ (1...CertificateFacts.maximumBytes).contains($0.count) }),
                let first = certificates.first, let facts = try? CertificateFacts(first),
                facts.isFor(blob.key.publicArea)
            else {
                throw .invalidInput(
                    "the certificate is not that of the attestation key for ‘\(issuer)’")
            }
            try await anchors.replaceAnchor(
                Self.name(Self.certificateAnchor, issuer),
                with: StoredCertificates.encode(certificates))
        } catch { throw error.during("store the certificate of the attestation key") }
    }

    /// Removes the certificate first: without its key it is useless.
    public func forgetAttestation(for issuer: String) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await anchors.replaceAnchor(Self.name(Self.certificateAnchor, issuer), with: nil)
            try await anchors.replaceAnchor(Self.name(Self.keyAnchor, issuer), with: nil)
        } catch { throw error.during("forget the attestation key") }
    }

    public func attestationIssuers() async throws(KeystoreError) -> [String] {
        do throws(KeystoreError) {
            return try await anchors.anchorNames(with: Self.keyAnchor).compactMap { name in
                if name == Self.keyAnchor { return "" }
                return name.hasPrefix(Self.keyAnchor + "/")
                    ? String(name.dropFirst(Self.keyAnchor.count + 1)) : nil
            }
        } catch { throw error.during("list the attestation keys") }
    }

    static func checkIssuer(_ issuer: String) throws(KeystoreError) {
        guard issuer.utf8.count <= maximumIssuerBytes,
            issuer.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            throw .invalidInput("the issuer of attestation certificates is not a URL")
        }
    }

    /// The store's attestation key for an issuer; nil before its first use.
    func existingAttestationKey(for issuer: String, under root: StorageRoot)
        async throws(KeystoreError) -> TPMKeyBlob?
    {
        guard let anchor = try await anchors.anchor(Self.name(Self.keyAnchor, issuer)) else {
            return nil
        }
        return try Self.signer(anchor, root)
    }

    /// The store's attestation key for an issuer. Creates it at the first use.
    func attestationKey(for issuer: String, under root: StorageRoot) async throws(KeystoreError)
        -> TPMKeyBlob
    {
        if let existing = try await existingAttestationKey(for: issuer, under: root) {
            return existing
        }
        let name = Self.name(Self.keyAnchor, issuer)
        let created = try await createObject(
            KeyTemplates.attestationKey, authValue: .empty, under: root)
        let stored = try await anchors.anchor(
            name, is: try serialized(TPMKeyBlob(created, .open, under: root)))
        return try Self.signer(stored, root)
    }

    /// The certificate of an attestation key and its issuers', if the first one is for this key and
    /// valid now.
    ///
    /// A certificate of another key stays after a crash between the two steps of
    /// ``forgetAttestation(for:)`` of an earlier process, or was written by another program. It
    /// counts as none, and the next activation replaces it.
    func storedCertificates(
        for issuer: String, of signer: TPMKeyBlob
    ) async throws(KeystoreError) -> (certificates: [Data], facts: CertificateFacts?) {
        guard let stored = try await anchors.anchor(Self.name(Self.certificateAnchor, issuer)),
            let certificates = StoredCertificates.decode(stored), let first = certificates.first,
            let facts = try? CertificateFacts(first), facts.isFor(signer.key.publicArea),
            facts.expiresAt > Date()
        else { return ([], nil) }
        return (certificates, facts)
    }

    private static func signer(_ anchor: Data, _ root: StorageRoot) throws(KeystoreError)
        -> TPMKeyBlob
    {
        guard let blob = try? TPMKeyBlob(anchor),
            blob.key.publicArea.isMade(from: KeyTemplates.attestationKey)
        else {
            throw .damaged("the stored attestation key cannot be decoded")
        }
        guard blob.parentName == root.name else { throw otherTPM() }
        return blob
    }

    /// The TPM's endorsement keys. A process looks for them once.
    private func endorsementKeys() async throws(KeystoreError) -> EndorsementKeys? {
        if let known = device.knownEndorsementKeys.withLock({ $0 }) { return known }
        let found = try await withTPM { (tpm) throws(TPMError) in try tpm.endorsementKeys() }
        device.knownEndorsementKeys.withLock { $0 = found }
        return found
    }

    private func explainActivation(_ error: TPMError, _ root: StorageRoot) async -> KeystoreError {
        switch (error.command, error.responseCode?.base) {
        case _ where error.isOfAnotherKey:
            return KeystoreError(
                code: .refused,
                reason: "the issuer's challenge is not for this TPM and attestation key",
                recovery: "Start the activation again. If it fails again, report it to the issuer.",
                underlying: .init(error))
        case (.policySecret, .badAuth), (.policySecret, .authFail), (.createPrimary, .badAuth),
            (.createPrimary, .authFail):
            return KeystoreError(
                code: .unavailable, reason: "the TPM's endorsement hierarchy has a password",
                recovery:
                    "Ask the TPM's administrator to remove it, or use an attestation without certificate.",
                underlying: .init(error))
        default: return await explainResponse(error, root, hasPIN: false)
        }
    }
}

/// The stored certificates of an attestation key: a version, the number of certificates, and the
/// certificates.
enum StoredCertificates {
    static let maximumCount = 4
    private static let version: UInt8 = 1

    static func encode(_ certificates: [Data]) -> Data {
        var writer = TPMWriter(version, UInt8(certificates.count))
        for certificate in certificates { writer.write(TPM2B(Array(certificate))) }
        return Data(writer.bytes)
    }

    /// - Returns: nil for bytes that ``encode(_:)`` did not return.
    static func decode(_ bytes: Data) -> [Data]? {
        var reader = TPMReader(bytes)
        do throws(TPMError) {
            guard try reader.read(UInt8.self) == version else { return nil }
            let count = try reader.read(UInt8.self)
            guard (1...maximumCount).contains(Int(count)) else { return nil }
            var certificates: [Data] = []
            for _ in 0..<count {
                certificates.append(
                    Data(try reader.readSized(maximum: CertificateFacts.maximumBytes)))
            }
            try reader.finish()
            return certificates
        } catch {
            return nil
        }
    }
}

extension TPMError {
    /// Whether a challenge was made for another endorsement or attestation key.
    fileprivate var isOfAnotherKey: Bool {
        guard command == .activateCredential else { return false }
        return switch responseCode?.base {
        case .integrity, .value, .size, .eccPoint, .hash: true
        default: false
        }
    }
}

extension TPM {
    /// Opens a challenge: Load, StartAuthSession, PolicySecret for an endorsement key of the low
    /// range, ActivateCredential, FlushContext. The salted session encrypts the secret on the bus.
    fileprivate func activate(
        _ challenge: ActivationChallenge, _ signer: TPMKeyBlob, with endorsement: EndorsementKey,
        under root: StorageRoot
    ) throws(TPMError) -> SecretBytes {
        try withEndorsementKey(endorsement) { (endorsementKey) throws(TPMError) in
            try withStorageRoot(root) { (parent) throws(TPMError) in
                try withLoadedObject(of: signer.key, under: parent) {
                    (attestationKey) throws(TPMError) in
                    let opensWithPassword = endorsementKey.publicArea.attributes.contains(
                        .userWithAuth)
                    return try withSession(opensWithPassword ? .hmac : .policy, saltedTo: parent) {
                        (session) throws(TPMError) in
                        if !opensWithPassword {
                            let approval = Approval(nonceTPM: session.nonceTPM)
                            try execute(
                                PolicySecret(approval, of: Hierarchy.endorsement), in: session)
                        }
                        let salted = Authorization.lastUse(of: session, protecting: .encrypt)
                        return SecretBytes(
                            try execute(
                                ActivateCredential(
                                    Array(challenge.credentialBlob),
                                    secret: Array(challenge.encryptedSecret), for: attestationKey,
                                    with: endorsementKey),
                                authorizedBy: opensWithPassword ? salted : .emptyPassword,
                                opensWithPassword ? .emptyPassword : salted))
                    }
                }
            }
        }
    }
}
