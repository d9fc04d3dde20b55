import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// The verifier, authority, registry and limits of attestation.
struct AttestationServices: Sendable {
    let configuration: AttestationConfiguration
    let registry: DatabaseApprovalKeyRegistry
    let pending: PendingActivations
    private let anchors: AttestationAnchors
    private let issuer: AttestationIssuer
    private let simulatedIssuer: AttestationIssuer
    private let clock: WallClock
    /// Whether a client must use keys that meet a requirement.
    private let isRequired: Bool

    /// - Returns: nil if the configuration does not have the member `attestation`.
    /// - Throws: ``ConfigurationError`` if an anchor cannot be read.
    init?(
        _ configuration: ServerConfiguration, database: any SQLDatabase, secrets: SecretStore,
        clock: WallClock
    ) async throws {
        guard let own = configuration.attestation else { return nil }
        self.configuration = own
        self.clock = clock
        isRequired = configuration.clients.contains {
            ($0.attestationRequire ?? own.require) != AttestationRequirement.Level.none.rawValue
        }
        issuer = try await Self.issuer("Latchkey attestation CA", secrets, clock)
        simulatedIssuer = try await Self.issuer(
            "Latchkey attestation CA (simulated)", secrets, clock)
        anchors = try Self.anchors(in: own.anchors)
        registry = DatabaseApprovalKeyRegistry(database, clock: clock)
        pending = PendingActivations(database: database, clock: clock)
    }

    /// Reads the operator's trust anchors.
    private static func anchors(in directory: String) throws -> AttestationAnchors {
        let anchors: AttestationAnchors
        do throws(AttestationAnchorError) {
            anchors = try AttestationAnchors(directory: directory)
        } catch {
            throw ConfigurationError(
                "attestation.anchors: \(error.path): \(error.reason)",
                "Correct or remove the file or directory.")
        }
        guard anchors.groups.contains(where: \.hasRoots) else {
            throw ConfigurationError(
                "attestation.anchors: no roots below \(directory)",
                "Copy the manufacturers' root certificates into tpm/roots or piv/roots of it.")
        }
        return anchors
    }

    /// One line for each anchor that is not used, and one with the number of those that are used,
    /// if any is not.
    var anchorWarnings: [String] {
        let hardware = [anchors.tpm, anchors.piv, anchors.aik]
        let canBeMet = configuration.acceptSimulated || hardware.contains(where: \.hasRoots)
        return (canBeMet || !isRequired ? [] : [Self.onlySimulators]) + skippedAnchors
    }

    private static let onlySimulators =
        "attestation: no key meets the requirement, because all roots are of simulators and accept_simulated is false"

    private var skippedAnchors: [String] {
        guard !anchors.skipped.isEmpty else { return [] }
        let roots = anchors.groups.map(\.rootCount).reduce(0, +)
        let intermediates = anchors.groups.map(\.intermediateCount).reduce(0, +)
        return anchors.skipped.map {
            "attestation.anchors: \($0.path) is not used: \($0.reason)"
        } + [
            "attestation.anchors: \(anchors.skipped.count) not used, \(roots) roots and "
                + "\(intermediates) intermediates left"
        ]
    }

    var authority: EndorsementAuthority {
        EndorsementAuthority(
            anchors: anchors, issuer: issuer, simulatedIssuer: simulatedIssuer,
            certificateDays: 90, clock: clock)
    }

    private var verifier: AttestationVerifier {
        get throws {
            AttestationVerifier(
                anchors: AttestationAnchors(
                    piv: anchors.piv,
                    aik: try .init([anchors.aik, .init(roots: [issuer.certificate])]),
                    simulated: try .init([
                        anchors.simulated, .init(roots: [simulatedIssuer.certificate]),
                    ])),
                approvalKeys: registry, clock: clock)
        }
    }

    /// The authority of this name. It is created on first use and stored in the database.
    private static func issuer(_ name: String, _ secrets: SecretStore, _ clock: WallClock)
        async throws -> AttestationIssuer
    {
        let stored = try await secrets.privateKey(name) {
            let made = try AttestationIssuer.generate(name: name, at: clock.now)
            return SecretBytes(
                try CanonicalJSON.encode([
                    "certificate": Base64URL.encode(made.certificate),
                    "private_key": made.privateKey,
                ]))
        }
        return try SecretStore.reading(name) {
            let members = try stored.withUnsafeBytes {
                try JSONDecoder().decode([String: String].self, from: Data($0))
            }
            return try AttestationIssuer(
                certificate: members["certificate"].flatMap { Base64URL.decode($0) } ?? Data(),
                privateKey: members["private_key"] ?? "")
        }
    }

    /// The formats for which there are anchors.
    var formats: [String] {
        let hasTPM = [anchors.tpm, anchors.aik, anchors.simulated].contains(where: \.hasRoots)
        let hasPIV = [anchors.piv, anchors.simulated].contains(where: \.hasRoots)
        return (hasTPM ? ["tpm"] : []) + (hasPIV ? ["piv"] : [])
    }

    /// The requirement for the keys of a client.
    ///
    /// - Parameter isDeviceKey: Whether the key authenticates the device only. Such a key never
    ///   prompts, so that at most `hardware` is required.
    func requirement(_ client: ClientConfiguration?, isDeviceKey: Bool = false)
        -> AttestationRequirement
    {
        let own =
            client?.attestationRequire.flatMap(AttestationRequirement.Level.init)
            ?? configuration.level
        return AttestationRequirement(
            isDeviceKey && own != .none ? .hardware : own,
            acceptsSimulated: configuration.acceptSimulated)
    }

    /// Whether a bearer token is the administrators' token for enrolling presence brokers.
    func isAdministrator(_ bearer: String?) -> Bool {
        guard let bearer,
            let expected = AttestationConfiguration.digest(configuration.brokerTokenDigest)
        else {
            return false
        }
        return constantTimeEqual(MessageDigest(sha256: bearer.utf8).bytes, Array(expected))
    }

    /// Enrols a presence broker's approval key for the TPM that contains it.
    ///
    /// - Parameter challenge: The token of the statement. A well-formed statement uses it up.
    /// - Returns: The Name of the key.
    func enrolApprovalKey(
        _ attestation: Data, challenge: String, of challenges: any ChallengeStore
    ) async throws -> Data {
        try await registry.enrol(
            AttestationStatement(json: attestation), challenge: challenge, of: challenges,
            verifiedBy: verifier,
            acceptsSimulated: configuration.acceptSimulated)
    }

    /// Refuses a request without an attestation if one is required.
    func requirePresent(_ attestation: Data?, under requirement: AttestationRequirement)
        throws(OAuthError)
    {
        guard attestation != nil || requirement.level == .none else { throw .attestationRequired }
    }

    /// Refuses a key whose stored proof does not meet the client's requirement now. A key can have
    /// been set up for another client, or before the requirement, and an administrator can have
    /// removed an approval key since.
    ///
    /// - Parameter isDeviceKey: As for ``requirement(_:isDeviceKey:)``.
    /// - Throws: ``OAuthError`` or `AttestationError`.
    func requireProof(
        _ record: AttestationRecord?, for client: ClientConfiguration?, isDeviceKey: Bool = false,
        in database: any SQLConnection
    ) throws {
        let requirement = requirement(client, isDeviceKey: isDeviceKey)
        guard requirement.level != .none else { return }
        guard let record else { throw OAuthError.attestationRequired }
        if let refusal = record.refusal(under: requirement) { throw refusal }
        guard requirement.level != .hardware else { return }
        // The owner of any of these keys can use the attested key.
        for name in record.approvalKeys {
            guard let name = Base64URL.decode(name),
                try registry.isEnrolled(name, in: database)
            else {
                throw AttestationError(
                    .unknownApprovalKey, "an approval key of the proof is no longer accepted")
            }
        }
    }

    /// Verifies the attestation of a new key.
    ///
    /// - Parameters:
    ///   - attestation: The JSON.
    ///   - challenge: The token of the signed request, which was used up.
    ///   - issuer: The server's origin, whose host is the RP ID.
    func verify(
        _ attestation: Data, of key: DevicePublicKey, named kid: KeyID, challenge: String,
        issuer: String, under requirement: AttestationRequirement
    ) async throws -> AttestationRecord {
        let verdict = try await verifier.verify(
            AttestationStatement(json: attestation), of: key,
            for: AttestationExpectation(
                token: challenge, kid: kid, issuer: issuer, requirement: requirement))
        return AttestationRecord(verdict, for: requirement.level, at: clock.now)
    }
}

extension AttestationAnchors {
    fileprivate var groups: [Group] { [tpm, piv, aik, simulated] }
}
