internal import Crypto
internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    public func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        do throws(KeystoreError) {
            try request.checkChallenge()
            try Self.checkIssuer(request.issuer)
            let (blob, root) = try await checkedBlob(of: key)
            // Without a certificate of the issuer, the key for it would prove nothing. It could be
            // for a mistyped issuer, and would stay.
            let signer =
                if let existing = try await existingAttestationKey(
                    for: request.issuer, under: root)
                {
                    existing
                } else if request.issuer.isEmpty && !request.needsCertificate {
                    try await attestationKey(for: request.issuer, under: root)
                } else { throw Self.notActivated(request.issuer) }
            let certificates = try await storedCertificates(for: request.issuer, of: signer)
                .certificates
            guard !request.needsCertificate || !certificates.isEmpty else {
                throw Self.notActivated(request.issuer)
            }
            let content = WebAuthnContent(request, of: key)
            let challenge = content?.challenge ?? Array(request.challenge)
            let say = {
                (permission: CertificationPermission) async throws(KeystoreError) -> Attested in
                let explain: Explanation = { await explainAttestation($0, blob, root, permission) }
                return try await withTPM(explainedBy: explain) { (tpm) throws(TPMError) in
                    try tpm.attest(
                        blob, with: permission, counter: request.counter(of: blob), under: root,
                        by: signer, challenge)
                }
            }
            let said: Attested
            if let permission = try permission(to: request, key, blob) {
                said = try await say(permission)
            } else {
                said = try await proven(blob, root, request.prompt, presence, say)
            }
            return try attestation(
                of: key, blob, said, by: signer, certificates, request.form, content)
        } catch { throw error.during("attest a key") }
    }

    public func isAttestable(_ key: HardwareKey) -> Bool {
        (try? keyBlob(of: key)) != nil
    }

    /// The permission for a statement, without a proof of the user's presence. nil if the key's own
    /// PIN is necessary.
    private func permission(
        to request: AttestationRequest, _ key: HardwareKey, _ blob: TPMKeyBlob
    ) throws(KeystoreError) -> CertificationPermission? {
        if request.isAboutCreation, let origin = blob.origin { return .ticket(origin) }
        if let kept = try authorization(of: key, blob), !kept.hasPIN { return .kept(kept) }
        return blob.protection.pinSalt == nil
            ? .authValue(blob.protection.ownAuthValue ?? .empty) : nil
    }

    /// Obtains a statement with the key's own PIN.
    private func proven(
        _ blob: TPMKeyBlob, _ root: StorageRoot, _ prompt: PromptContext,
        _ presence: (any PresenceAuthority)?,
        _ say: (CertificationPermission) async throws(KeystoreError) -> Attested
    ) async throws(KeystoreError) -> Attested {
        guard let presence else {
            throw .unsupported(
                "the TPM certifies a key with its own PIN only with this PIN",
                recovery: "Attest its creation instead, or enter the PIN.")
        }
        try await checkHardware(of: root, before: presence)
        let pin = try await currentPIN(prompt, presence)
        return try await presence.reporting(pin) { () async throws(KeystoreError) in
            let authValue = try KeystoreError.explaining { () throws(TPMError) in
                try blob.protection.authValue(pin, boundTo: blob.binding)
            }
            return try await say(.authValue(authValue))
        }
    }

    private func attestation(
        of key: HardwareKey, _ blob: TPMKeyBlob, _ said: Attested, by signer: TPMKeyBlob,
        _ certificates: [Data],
        _ form: AttestationRequest.Form, _ content: WebAuthnContent?
    ) throws(KeystoreError) -> KeyAttestation {
        do {
            let encode: (SignedStatement) throws -> Data = { statement in
                form == .acme
                    ? Data(TPMSignature(statement.signature).marshalled)
                    : try statement.signature.derRepresentation
            }
            var presence = blob.presenceStatement(under: key.policy)
            if let counter = said.counter {
                presence.certify(counter.bytes, signature: try encode(counter))
            }
            let publicArea = Data(blob.key.publicArea.marshalled)
            var object: Data?
            if !certificates.isEmpty {
                object = AttestationObject.encode(
                    certificates: certificates, signature: try encode(said.key),
                    statement: said.key.bytes,
                    publicArea: publicArea, authenticatorData: content?.authenticatorData)
            }
            return KeyAttestation(
                format: KeyAttestation.tpm, statement: said.key.bytes,
                signature: said.key.signature.rawRepresentation, publicArea: publicArea,
                attestationKey: Data(signer.key.publicArea.marshalled), certificates: certificates,
                presence: presence, object: object, clientData: content?.clientData)
        } catch {
            throw KeystoreError(
                TPMError(.malformed, reason: "the statement cannot be encoded: \(error)"))
        }
    }

    private func explainAttestation(
        _ error: TPMError, _ blob: TPMKeyBlob, _ root: StorageRoot,
        _ permission: CertificationPermission
    ) async -> KeystoreError {
        if case .kept(let kept) = permission, error.command == .nvRead {
            return await explainRevocable(error, kept, root)
        }
        if error.command == .nvCertify, error.responseCode != nil {
            return .fingersChanged(underlying: error)
        }
        return await explainResponse(error, root, hasPIN: blob.protection.pinSalt != nil)
    }

    private static func notActivated(_ issuer: String) -> KeystoreError {
        KeystoreError(
            code: .wrongState,
            reason: issuer.isEmpty
                ? "there is no certified attestation key for local use"
                : "there is no certified attestation key for ‘\(issuer)’",
            recovery: issuer.isEmpty
                ? Recovery("Name a server where this TPM is enrolled.", .chooseIssuer)
                : Recovery("Activate the attestation key at ‘\(issuer)’.", .enrolAttestation))
    }
}

/// The authorization of a statement about a key. The key is the object of the statement, never its
/// signer: it serves `TPM2_CertifyCreation` without an authorization, and `TPM2_Certify` in the
/// ADMIN role.
enum CertificationPermission: Sendable {
    /// The proof of its creation.
    case ticket(TPMKeyBlob.Origin)
    /// Its authValue: empty, or 32 stored bytes, or its own PIN.
    case authValue(AuthValue)
    /// The authValue that an index without a PIN stores.
    case kept(RevocableSecret)
}

extension AttestationRequest {
    /// The counter whose value to attest too: the key is lost when it changes.
    fileprivate func counter(of blob: TPMKeyBlob) -> NVIndex? {
        form == .creation ? nil : blob.protection.finger?.counter?.index
    }
}

/// The TPM's statements about a key, and about the counter in its policy.
private struct Attested: Sendable {
    let key: SignedStatement
    let counter: SignedStatement?
}

/// A verified statement.
private struct SignedStatement: Sendable {
    let bytes: Data
    let signature: ECDSASignature
}

extension TPM {
    /// Attests a key: Load twice, the statement with the commands that authorize it, NV_Certify for
    /// a counter, FlushContext twice.
    fileprivate func attest(
        _ blob: TPMKeyBlob, with permission: CertificationPermission, counter: NVIndex?,
        under root: StorageRoot,
        by signer: TPMKeyBlob, _ challenge: [UInt8]
    ) throws(TPMError) -> Attested {
        try withStorageRoot(root) { (parent) throws(TPMError) in
            try withLoadedObject(of: signer.key, under: parent) {
                (attestationKey) throws(TPMError) in
                let statement = try withLoadedObject(of: blob.key, under: parent) {
                    (object) throws(TPMError) in
                    let said = try say(
                        object, permission, blob, under: parent, by: attestationKey, challenge)
                    return try Self.checked(said, by: attestationKey, challenge) { statement in
                        switch statement {
                        case .creation(let name, _): name == object.name
                        case .certify(let name, _): name == object.name
                        default: false
                        }
                    }
                }
                let count = try counter.map { (index) throws(TPMError) in
                    let said = try execute(
                        NVCertify(index, by: attestationKey, challenge: challenge))
                    return try Self.checked(said, by: attestationKey, challenge) { statement in
                        if case .nv(index.name, 0, _) = statement { true } else { false }
                    }
                }
                return Attested(key: statement, counter: count)
            }
        }
    }

    private func say(
        _ object: TPMObject, _ permission: CertificationPermission, _ blob: TPMKeyBlob,
        under parent: TPMObject,
        by signer: TPMObject, _ challenge: [UInt8]
    ) throws(TPMError) -> SignedAttest {
        switch permission {
        case .ticket(let creation):
            return try execute(
                CertifyCreation(
                    of: object, creationHash: creation.creationHash,
                    creationTicket: creation.creationTicket, challenge: challenge, by: signer))
        case .authValue(let authValue):
            let certify = Certify(object, by: signer, challenge: challenge)
            // The empty authValue needs no session, because nothing in it is secret.
            guard authValue.count > 0 else { return try execute(certify) }
            return try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                try execute(certify, authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        case .kept(let kept):
            guard let binding = blob.binding else {
                throw TPMError(.malformed, reason: "the key has no binding")
            }
            return try withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                let authValue = try authValue(
                    in: kept, boundTo: binding,
                    authorizedBy: .continuing(
                        session, authValue: kept.authValue(nil), protecting: .encrypt))
                return try execute(
                    Certify(object, by: signer, challenge: challenge),
                    authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        }
    }

    /// Verifies a statement as a verifier would.
    private static func checked(
        _ said: SignedAttest, by attestationKey: TPMObject, _ challenge: [UInt8],
        isExpected: (Attest.Statement) -> Bool
    ) throws(TPMError) -> SignedStatement {
        let bytes = Data(said.bytes)
        guard isExpected(said.attest.statement), said.attest.extraData == challenge,
            let signature = ECDSASignature(said.signature),
            let point = attestationKey.publicArea.p256Point?.p256Representation,
            let key = try? PublicKey(x963Representation: point),
            key.isValid(signature, for: MessageDigest(sha256: said.bytes))
        else {
            throw TPMError(
                .forged, reason: "the attestation is not about this key, or its signature is wrong")
        }
        return SignedStatement(bytes: bytes, signature: signature)
    }
}
