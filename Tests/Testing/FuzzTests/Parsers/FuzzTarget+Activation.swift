import FoundationEssentials

@testable import Latchkey
@testable import LatchkeyRelyingParty
@testable import LatchkeyTPM
@testable import TPM2

/// The parsers of an activation, at the server and at the client.
extension FuzzTarget {
    /// A time at which the certificates of the corpus are valid, in seconds since 1970.
    static let time: Int64 = 1_795_392_000
    /// The generator of P-256, `04 ‖ x ‖ y`.
    static let generator = Data([
        0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4,
        0x40, 0xf2, 0x77,
        0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
        0x4f, 0xe3, 0x42,
        0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
        0x33, 0x57, 0x6b,
        0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
    ])
    private static let clock = WallClock { Date(timeIntervalSince1970: Double(time)) }

    /// The certificates of an endorsement key, each after its length in two bytes, and the public
    /// area of an attestation key. The certificates of authorities among them are the anchors.
    static let activations = FuzzTarget("activations") { (input) throws(Contradiction) in
        let parts = pieces(of: input).map { Data($0) }
        guard let area = parts.last, let issuer = try? issuer.get() else { return }
        let certificates = Array(parts.dropLast())
        let authority = EndorsementAuthority(
            anchors: AttestationAnchors(tpm: authorities(among: certificates)), issuer: issuer,
            simulatedIssuer: nil,
            certificateDays: 1, clock: clock)
        guard
            let (_, pending) = try? authority.challenge(
                endorsement: certificates, attestationKey: area)
        else {
            return
        }
        try expect(certificates.count <= 4, "more than four certificates are accepted")
        let attributes = try? PublicArea(unmarshalling: area).attributes
        try expect(
            attributes?.contains([.restricted, .fixedTPM]) == true,
            "the attestation key can forge statements")
        let again = try? PendingActivation(state: pending.state)
        try expect(
            again?.attestationKey == pending.attestationKey,
            "an activation is stored as another one")
        let chain = try? authority.certificate(for: pending, secret: Data(count: 32))
        try expect(chain == nil, "another secret is accepted")
    }

    /// Rows of a server's database that describe proofs and activations.
    static let attestationRecords = FuzzTarget("attestation-records") {
        (input) throws(Contradiction) in
        if let record = try? JSONDecoder().decode(AttestationRecord.self, from: Data(input)) {
            let again = (try? JSONEncoder().encode(record)).flatMap {
                try? JSONDecoder().decode(AttestationRecord.self, from: $0)
            }
            try expect(again == record, "a proof is written as another one")
            _ = record.text
            for level in AttestationRequirement.Level.allCases {
                let strict = AttestationRequirement(level)
                let isRefused = record.refusal(under: strict) != nil
                try expect(
                    isRefused || !record.isSimulated || level == .none,
                    "a simulator meets a requirement")
            }
        }
        guard let activation = try? PendingActivation(state: String(decoding: input, as: UTF8.self))
        else { return }
        let again = try? PendingActivation(state: activation.state)
        try expect(
            again?.secretDigest == activation.secretDigest,
            "an activation is written as another one")
    }

    /// Certificates in a TPM's NV memory, and the certificates that a keystore stores with an
    /// attestation key.
    static let endorsementFacts = FuzzTarget("endorsement-facts") { (input) throws(Contradiction) in
        let certificates = CertificateFacts.split(input)
        try expect(
            input.starts(with: certificates.flatMap { $0 }),
            "the certificates are not those of the index")
        for certificate in certificates + [input] {
            guard let facts = try? CertificateFacts(certificate) else { continue }
            if case .point(let point) = facts.key {
                try expect([65, 97].contains(point.count), "a point is too long")
            }
            let again = try? CertificateFacts(Data(certificate))
            try expect(again == facts, "a certificate is read as another one")
            let area = PublicArea(
                attributes: [], detail: .ecc(ECCParameters(), ECCPoint(x: [], y: [])))
            try expect(!facts.isFor(area), "a certificate is for a key without a point")
        }
        _ = EndorsementSummary(Data(input))
        if let stored = StoredCertificates.decode(Data(input)) {
            try expect(
                StoredCertificates.encode(stored) == Data(input),
                "certificates are written as others")
        }
    }

    /// The certificates of authorities among these.
    static func authorities(among certificates: [Data]) -> AttestationAnchors.Group {
        let groups = certificates.compactMap { try? AttestationAnchors.Group(roots: [$0]) }
        return AttestationAnchors.Group(groups)
    }

    static func verifier(trusting group: AttestationAnchors.Group) -> AttestationVerifier {
        AttestationVerifier(
            anchors: AttestationAnchors(tpm: group, piv: group, aik: group),
            approvalKeys: ListedApprovalKeys([]),
            clock: clock)
    }

    private static let issuer = Result {
        let made = try AttestationIssuer.generate(
            name: "a", at: Date(timeIntervalSince1970: Double(time)))
        return try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
    }
}
