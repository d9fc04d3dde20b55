internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// Verifies that a key was created in genuine hardware and cannot leave it, and which user
/// verification the hardware enforces.
///
/// In contrast to ``KeyAttestationVerifier``, it verifies the certificates up to the operator's
/// anchors and recomputes the key's policy. The checks stop at the first one that fails. One call
/// verifies at most 30 signatures.
///
/// The caller first uses up the challenge, and last verifies the set-up request of the client with
/// the same key.
public struct AttestationVerifier: Sendable {
    let anchors: AttestationAnchors
    private let approvalKeys: any ApprovalKeyRegistry
    private let clock: WallClock

    /// Creates a verifier.
    ///
    /// - Parameters:
    ///   - anchors: The trusted certificates. `tpm` is not used: a TPM's certificate is verified
    ///     when its attestation key is certified.
    ///   - approvalKeys: The known approval keys.
    public init(anchors: AttestationAnchors, approvalKeys: any ApprovalKeyRegistry) {
        self.init(anchors: anchors, approvalKeys: approvalKeys, clock: .system)
    }

    package init(
        anchors: AttestationAnchors, approvalKeys: any ApprovalKeyRegistry, clock: WallClock
    ) {
        self.anchors = anchors
        self.approvalKeys = approvalKeys
        self.clock = clock
    }

    /// The current time in seconds since 1970.
    var now: Int64 { Int64(clock.seconds) }

    /// Verifies a statement.
    ///
    /// - Parameters:
    ///   - statement: The statement, as received.
    ///   - key: The key of the set-up request. Only keys on P-256 can be attested.
    ///   - expectation: The values that the server knows.
    /// - Returns: The proven properties, which meet the requirement.
    /// - Throws: ``AttestationError``, or the error of the registry of approval keys.
    public func verify(
        _ statement: AttestationStatement, of key: DevicePublicKey,
        for expectation: AttestationExpectation
    ) async throws -> AttestationVerdict {
        let verdict =
            switch statement.content {
            case .tpm(let statement): try await verify(statement, of: key, for: expectation)
            case .piv(let certificates): try verify(certificates, of: key)
            }
        if let refusal = verdict.refusal(under: expectation.requirement) { throw refusal }
        return verdict
    }

    private func verify(
        _ statement: TPMStatement, of key: DevicePublicKey, for expectation: AttestationExpectation
    ) async throws -> AttestationVerdict {
        let signer = try AttestationKeyCertificate(
            statement.certificates, anchors: anchors, time: now)
        let content = try AttestedContent(statement.certInfo)
        let extraData = try expectation.extraData(of: statement, key: key)
        guard constantTimeEqual(content.extraData, extraData) else {
            throw AttestationError(.wrongChallenge, "the statement answers another challenge")
        }
        guard let name = content.objectName, name == Self.name(of: statement.publicArea) else {
            throw AttestationError(.wrongName, "the statement is about another key")
        }
        guard signer.isValid(statement.signature, for: statement.certInfo) else {
            throw AttestationError(
                .invalidSignature, "the signature of the statement does not verify")
        }
        try Self.checkCreation(content, statement, for: expectation)
        let area: P256Area
        do {
            area = try P256Area(statement.publicArea)
        } catch {
            throw AttestationError(.wrongKey, "the key is not acceptable: \(error)")
        }
        guard key == .es256(area.publicKey) else {
            throw AttestationError(.wrongKey, "the attested key is not the key of the request")
        }
        guard area.signsDataFromOutside else {
            throw AttestationError(
                .wrongAttributes, "the key's attributes are \(area.attributes.hexadecimal)")
        }
        let policy = try DeclaredPolicy(
            statement.branches, endsWithAuthValue: statement.endsWithAuthValue)
        for (index, value, certification) in policy.certifiedCounters {
            try Self.check(certification, by: signer, of: index, value: value, extraData: extraData)
        }
        guard constantTimeEqual(area.authPolicy, policy.digest) else {
            throw AttestationError(.wrongPolicy, "the declared branches are not the key's policy")
        }
        return try await verdict(on: area, under: policy, by: signer)
    }

    /// The ways to use the key are the branches of its policy and, with userWithAuth, its
    /// authValue.
    private func verdict(
        on area: P256Area, under policy: DeclaredPolicy, by signer: AttestationKeyCertificate
    ) async throws -> AttestationVerdict {
        let opensWithAuthValue = area.attributes.contains(.userWithAuth)
        // Without dictionary-attack protection an authValue proves nothing: the key opens with the
        // empty one, or by trials.
        let isBare = opensWithAuthValue && area.attributes.contains(.noDA)
        let hasPIN = policy.hasPIN || (opensWithAuthValue && !isBare)
        guard opensWithAuthValue || policy.hasPIN || !policy.approvalKeys.isEmpty else {
            throw AttestationError(.wrongPolicy, "there is no way to use the key")
        }
        var isUnknown = false
        for name in policy.approvalKeys where !isUnknown {
            isUnknown = try await !approvalKeys.isApprovalKey(
                Data(name.bytes), inTPMOf: signer.publicKey)
        }
        let presence: AssuranceLevel.EnforcedPresence? =
            if isBare {
                AssuranceLevel.EnforcedPresence.none
            } else if isUnknown {
                nil
            } else if policy.approvalKeys.isEmpty {
                .pin
            } else {
                hasPIN ? .fingerOrPIN : .finger
            }
        return AttestationVerdict(
            publicKey: area.publicKey, hardware: signer.hardware, presence: presence,
            provesPIN: hasPIN && !isBare ? .form : .none, reuseSeconds: policy.reuseSeconds,
            diesWithFingers: policy.isBoundToFingers && !hasPIN && !isBare,
            approvalKeys: policy.approvalKeys.map { Data($0.bytes) },
            certificateSerial: signer.serialNumber)
    }

    /// `nameAlg ‖ H(TPMT_PUBLIC)`, from the bytes alone. Nil for another hash algorithm.
    private static func name(of publicArea: Data) -> TPMName? {
        let algorithm = Array(publicArea.dropFirst(2).prefix(2))
        switch algorithm {
        case [0x00, 0x0b]: return TPMName(bytes: algorithm + Array(SHA256.hash(data: publicArea)))
        case [0x00, 0x0c]: return TPMName(bytes: algorithm + Array(SHA384.hash(data: publicArea)))
        case [0x00, 0x0d]: return TPMName(bytes: algorithm + Array(SHA512.hash(data: publicArea)))
        default: return nil
        }
    }

    private static func checkCreation(
        _ content: AttestedContent, _ statement: TPMStatement,
        for expectation: AttestationExpectation
    ) throws(AttestationError) {
        guard case .creation(_, let hash) = content.subject else {
            guard !expectation.requiresNewKey else {
                throw AttestationError(.wrongCreation, "the statement is not about a creation")
            }
            return
        }
        guard let creationData = statement.creationData else {
            guard !expectation.requiresNewKey else {
                throw AttestationError(.wrongCreation, "the creation data was not sent")
            }
            return
        }
        guard constantTimeEqual(hash, Array(SHA256.hash(data: creationData))) else {
            throw AttestationError(.wrongCreation, "the creation data is not that of the statement")
        }
        guard
            !expectation.requiresNewKey
                || AttestedContent.outsideInfo(of: creationData) == Array(expectation.challenge)
        else {
            throw AttestationError(.wrongCreation, "the key was not created for this challenge")
        }
    }

    /// Checks that `NV_Certify` by the same attestation key showed the value of a counter.
    private static func check(
        _ certification: DeclaredBranch.Certification, by signer: AttestationKeyCertificate,
        of index: TPMName,
        value: UInt64, extraData: [UInt8]
    ) throws(AttestationError) {
        let content = try AttestedContent(certification.certInfo, isCounter: true)
        guard constantTimeEqual(content.extraData, extraData) else {
            throw AttestationError(
                .wrongChallenge, "the statement about the counter answers another challenge")
        }
        guard case .nv(index, 0, value.marshalled) = content.subject else {
            throw AttestationError(
                .wrongPolicy, "the counter of enrolled fingers has another value")
        }
        guard signer.isValid(certification.signature, for: certification.certInfo) else {
            throw AttestationError(
                .invalidSignature,
                "the signature of the statement about the counter does not verify")
        }
    }
}

extension AttestationExpectation {
    /// The qualifying data that the statement must contain.
    fileprivate func extraData(of statement: TPMStatement, key: DevicePublicKey)
        throws(AttestationError) -> [UInt8]
    {
        func refused(_ detail: String) -> AttestationError {
            AttestationError(.wrongChallenge, detail)
        }

        guard (8...64).contains(challenge.count) else {
            throw refused("the challenge does not have 8 to 64 bytes")
        }
        guard case .webAuthn(let rpID, let origin, let credentialID) = binding else {
            guard statement.authenticatorData == nil, statement.clientData == nil else {
                throw refused("the statement is bound to WebAuthn's data")
            }
            return Array(challenge)
        }
        guard let authenticatorData = statement.authenticatorData,
            let clientData = statement.clientData
        else {
            throw refused("the authData or the client data is missing")
        }
        guard case .es256(let key) = key else { throw refused("the key is not on P-256") }
        // The header is SHA-256(rpId) ‖ flags ‖ u32 counter ‖ AAGUID. The flags UP and UV and the
        // AAGUID are the client's claims, which prove nothing here.
        let flags = authenticatorData.dropFirst(32).first ?? 0
        guard flags & ~0x05 == 0x40, authenticatorData.count >= 53,
            authenticatorData.prefix(32) == Data(SHA256.hash(data: Data(rpID.utf8))),
            authenticatorData.dropFirst(33).prefix(4) == Data(count: 4),
            authenticatorData.dropFirst(53) == credentialData(credentialID, key)
        else { throw refused("the authData is not for this server, kid and key") }
        guard clientData == clientDataJSON(origin: origin) else {
            throw refused("the client data is not for this challenge and origin")
        }
        return Array(SHA256.hash(data: authenticatorData + Data(SHA256.hash(data: clientData))))
    }

    /// `u16 ‖ credential ID ‖ COSE key` (WebAuthn Level 3 section 6.5.1; RFC 9053 section 7.1.1).
    private func credentialData(_ id: Data, _ key: PublicKey) -> Data {
        let count = Data(UInt16(truncatingIfNeeded: id.count).marshalled)
        let coseKey: [UInt8] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]
        return count + id + Data(coseKey) + key.x + Data([0x22, 0x58, 0x20]) + key.y
    }

    /// The client data in the serialization of WebAuthn Level 3 section 5.8.1.1.
    private func clientDataJSON(origin: String) -> Data {
        let escaped = origin.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return Data(
            (#"{"type":"webauthn.create","challenge":""# + Base64URL.encode(challenge)
                + #"","origin":""# + escaped
                + #"","crossOrigin":false}"#).utf8)
    }
}
