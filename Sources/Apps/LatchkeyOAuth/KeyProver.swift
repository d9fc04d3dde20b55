package import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// Proves to a server that new keys are in hardware, and which user verification the hardware
/// enforces.
///
/// A server that does not announce support gets nothing. A server that requires nothing gets a
/// proof only if the user activated this TPM for it (`latchkey attestation enrol`).
package struct KeyProver<Code: OAuthErrorCode>: Sendable {
    let client: OAuthClient<Code>
    private let keystore: any Keystore
    private let level: AttestationLevel
    /// Whether the hardware has an endorsement key. A token attests without an activation.
    private let isTPM: Bool

    /// The server's name in the statements: its origin, and the issuer that selects the attestation
    /// key.
    private var issuer: String { client.metadata.issuer }

    /// Reads what the server requires of the client's new keys. Sends nothing about the hardware.
    ///
    /// - Returns: nil if no proof is to be sent.
    /// - Throws: ``OAuthFailure/attestation(_:)`` if this hardware cannot meet the requirement,
    ///   `CommonError`.
    package init?(_ client: OAuthClient<Code>, _ keystore: any Keystore) async throws {
        guard !client.metadata.attestationFormats.isEmpty else { return nil }
        let metadata = try await ProviderMetadata.read(
            at: client.metadata.issuer, for: client.clientID, over: client.connection)
        guard let level = AttestationLevel(rawValue: metadata.requiredAttestation) else {
            throw LatchkeyError<Code>(
                .attestation(.unknownRequirement(metadata.requiredAttestation)))
        }
        let capabilities = try await keystore.capabilities()
        isTPM = [AssuranceLevel.Root.tpm, .swtpm].contains(capabilities.root)
        if level == .none {
            // Otherwise the request would not be worth the data that it reveals.
            guard isTPM, client.metadata.attestationFormats.contains(KeyAttestation.tpm),
                try await Self.isActivated(keystore, client.metadata.issuer)
            else { return nil }
        }
        (self.client, self.keystore, self.level) = (client, keystore, level)
        try checkHardware(capabilities)
    }

    /// A prover for an activation without a key.
    package init(activatingAt client: OAuthClient<Code>, _ keystore: any Keystore)
        throws(LatchkeyError<Code>)
    {
        guard client.metadata.attestationFormats.contains(KeyAttestation.tpm) else {
            throw LatchkeyError(.missingEndpoint(.attestation))
        }
        (self.client, self.keystore, level, isTPM) = (client, keystore, .hardware, true)
    }

    private static func isActivated(_ keystore: any Keystore, _ issuer: String) async throws -> Bool
    {
        let keystore = try keystore.attesting()
        guard try await keystore.attestationIssuers().contains(issuer) else { return false }
        return try await !keystore.attestationIdentity(for: issuer).certificates.isEmpty
    }

    private func checkHardware(_ capabilities: KeystoreCapabilities) throws(LatchkeyError<Code>) {
        let format = isTPM ? KeyAttestation.tpm : KeyAttestation.piv
        let isAccepted =
            switch level {
            case .none, .hardware, .presence: client.metadata.attestationFormats.contains(format)
            case .finger: isTPM
            case .touch: !isTPM
            }
        guard isAccepted else { throw LatchkeyError(.attestation(.otherHardware(level))) }
        guard capabilities.canAttest else {
            throw LatchkeyError(.attestation(.noProof("this hardware cannot prove it")))
        }
    }

    /// Checks before a key is created that a policy can meet the requirement.
    ///
    /// - Parameter isDeviceKey: Whether the key only identifies the device. The server requires no
    ///   user verification then.
    package func check(_ policy: AccessPolicy, isDeviceKey: Bool = false) throws(LatchkeyError<
        Code
    >) {
        let isMet =
            switch level {
            case _ where isDeviceKey: true
            case .none, .hardware, .touch: true
            case .presence: policy.requirement != .none
            case .finger: policy.hasFinger && !policy.hasPIN
            }
        guard isMet else { throw LatchkeyError(.attestation(.weakPolicy(level))) }
    }

    /// Makes sure that the server knows this hardware: activates the TPM's attestation key for it
    /// at the first use, and again before its certificate expires.
    ///
    /// - Parameters:
    ///   - authorization: The value of the field `Authorization`.
    ///   - isAgreed: Shows the user what the server learns. Called before the first activation, and
    ///     for each key of a token.
    package func prepare(
        authorization: String, now: Date, isAgreed: (AttestationDisclosure) async throws -> Bool
    ) async throws {
        guard isTPM else {
            return try await requireAgreement(.token(issuer), isAgreed)
        }
        let identity = try await keystore.attesting().attestationIdentity(for: issuer)
        guard identity.needsActivation(at: now) else { return }
        if identity.certificates.isEmpty { try await requireAgreement(.tpm(issuer), isAgreed) }
        do {
            try await activate(identity, authorization: authorization)
        } catch {
            // A renewal can wait while the old certificate is valid.
            guard !identity.certificates.isEmpty, let expiresAt = identity.expiresAt,
                now < expiresAt
            else {
                throw error
            }
        }
    }

    private func requireAgreement(
        _ disclosure: AttestationDisclosure,
        _ isAgreed: (AttestationDisclosure) async throws -> Bool
    ) async throws {
        guard try await isAgreed(disclosure) else {
            throw LatchkeyError<Code>(.attestation(.notAgreed))
        }
    }

    /// The attestation of a new key, as JSON for the server. Does not prompt.
    ///
    /// - Parameter challenge: The token in the key's signed request.
    package func statement(about key: HardwareKey, challenge: String) async throws -> JSONValue {
        let request = AttestationRequest(
            challenge: Data(challenge.utf8), issuer: isTPM ? issuer : "",
            form: .enrolment(rpID: URL(string: issuer)?.host() ?? "", origin: issuer))
        guard let json = try await keystore.attest(key, for: request).json,
            let value = try? JSONDecoder().decode(JSONValue.self, from: json)
        else {
            throw LatchkeyError<Code>(
                .attestation(.noProof("the hardware returned no certificate")))
        }
        return value
    }

    // MARK: Activation

    private struct Challenge: Decodable {
        let id: String
        let credential_blob: String
        let encrypted_secret: String
    }

    private struct Chain: Decodable {
        let x5c: [String]
    }

    private func activate(_ identity: AttestationIdentity, authorization: String) async throws {
        guard !identity.endorsementCertificates.isEmpty else {
            throw LatchkeyError<Code>(
                .attestation(.noProof("this TPM has no endorsement certificate")))
        }
        let keystore = try keystore.attesting()
        let endpoint = try client.endpoint(.attestation).appending("/activation")
        let begun = try await client.connection.post(
            [
                "ek_certificates": .array(
                    identity.endorsementCertificates.map { .string(Base64URL.encode($0)) }),
                "attestation_key": .string(Base64URL.encode(identity.attestationKey)),
            ], to: endpoint, authorization: authorization
        ).successful().json(Challenge.self)
        func unusable(_ member: String) -> LatchkeyError<Code> {
            .unreadable("‘\(member)’ has an invalid value", from: endpoint.path)
        }
        guard let blob = Base64URL.decode(begun.credential_blob) else {
            throw unusable("credential_blob")
        }
        guard let seed = Base64URL.decode(begun.encrypted_secret) else {
            throw unusable("encrypted_secret")
        }
        guard (1...128).contains(begun.id.utf8.count), Base64URL.decode(begun.id) != nil else {
            throw unusable("id")
        }
        let secret = try await keystore.activate(
            ActivationChallenge(credentialBlob: blob, encryptedSecret: seed), for: issuer)
        let answer = try await client.connection.post(
            ["secret": secret.withUnsafeBytes { Base64URL.encode(Data($0)) }],
            to: endpoint.appending("/\(begun.id)"),
            authorization: authorization
        ).successful().json(Chain.self)
        let chain = answer.x5c.compactMap { Base64URL.decode($0) }
        guard (1...4).contains(chain.count), chain.count == answer.x5c.count else {
            throw unusable("x5c")
        }
        try await keystore.keepAttestationCertificates(chain, for: issuer)
    }
}

extension KeyProver {
    private struct ApprovalChallenge: Decodable {
        struct Result: Decodable { let token: String }
        let result: Result
    }

    private struct Enrolled: Decodable {
        let name: String
    }

    /// Enrols the presence broker's approval key, after ``prepare(authorization:now:isAgreed:)``.
    ///
    /// - Parameters:
    ///   - authorization: The administrators' token for it, as the value of the field
    ///     `Authorization`.
    ///   - certify: Returns the statement about the approval key for a challenge.
    /// - Returns: The Name of the approval key, as the server understood it.
    package func enrolApprovalKey(
        authorization: String, certify: (Data) async throws -> JSONValue
    ) async throws -> String {
        guard let challenges = client.metadata.challenge else {
            throw LatchkeyError<Code>(.missingEndpoint(.authorization))
        }
        let token = try await client.connection.post(
            ["purpose": "approval_key_request"], to: challenges
        )
        .successful().json(ApprovalChallenge.self).result.token
        let statement = try await certify(Data(token.utf8))
        let endpoint = try client.endpoint(.attestation).appending("/approval-key")
        return try await client.connection.post(
            ["challenge": .string(token), "attestation": statement], to: endpoint,
            authorization: authorization
        ).successful().json(Enrolled.self).name
    }
}
