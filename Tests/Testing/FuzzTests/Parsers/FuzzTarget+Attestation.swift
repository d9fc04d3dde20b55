import FoundationEssentials

@testable import Latchkey
@testable import LatchkeyRelyingParty
@testable import TPM2

/// The parsers of attestations that a client sends to a server.
extension FuzzTarget {
    /// The JSON of a statement, and the structures in it.
    static let attestationStatements = FuzzTarget("attestation-statements") {
        (input) throws(Contradiction) in
        guard let statement = try? AttestationStatement(json: Data(input)) else { return }
        switch statement.content {
        case .tpm(let statement): try read(statement)
        case .piv(let certificates):
            try expect(
                (2...4).contains(certificates.count),
                "a PIV attestation has another number of certificates")
            guard let key = try? DevicePublicKey.es256(PublicKey(x963Representation: generator))
            else { return }
            let isVerified =
                (try? verifier(trusting: authorities(among: certificates)).verify(
                    certificates, of: key)) != nil
            try expect(
                !isVerified || statement.claimedKey.map { .es256($0) } == key,
                "another key is verified")
        }
        _ = statement.claimedKey
    }

    /// A CBOR attestation object: read alone, and as the object of a statement.
    static let attestationObjects = FuzzTarget("attestation-objects") {
        (input) throws(Contradiction) in
        _ = try? CBORReader.read(input[...])
        let branches = #"[{"type":"other"}]"#
        let json =
            #"{"format":"tpm","object":"\#(Base64URL.encode(input))","presence":{"version":1,"branches":\#(branches)}}"#
        guard case .tpm(let statement) = try? AttestationStatement(json: Data(json.utf8)).content
        else { return }
        try expect(statement.branches == [.other], "the object changes the branches")
        try read(statement)
    }

    /// A certificate of an endorsement key, an attestation key or a YubiKey, with or without
    /// padding.
    static let hardwareCertificates = FuzzTarget("hardware-certificates") {
        (input) throws(Contradiction) in
        guard
            let certificate = try? HardwareCertificate(
                HardwareCertificate.withoutPadding(Data(input)))
        else {
            return
        }
        try expect(
            (try? HardwareCertificate(certificate.der)) == certificate,
            "a certificate is read as another one")
        _ = try? certificate.basicConstraints()
        _ = try? certificate.maySignCertificates()
        _ = try? certificate.purposes()
        _ = try? TPMAttributes(certificate)
        _ = CertificateKey(publicKeyInfo: certificate.publicKeyInfo)?.isIssuer(of: certificate)
        let own = AttestationAnchors.Group(roots: [certificate], intermediates: [certificate])
        let anchors = AttestationAnchors(tpm: own, piv: own, aik: own)
        _ = try? EndorsementCertificate([certificate.der], anchors: anchors, time: time)
        _ = try? AttestationKeyCertificate([certificate.der], anchors: anchors, time: time)
        let key = DevicePublicKey.rs256(
            modulus: Data(repeating: 0xff, count: 256), exponent: Data([3]))
        let isVerified =
            (try? verifier(trusting: own).verify([certificate.der, certificate.der], of: key))
            != nil
        try expect(!isVerified, "an RSA key has a PIV attestation")
    }

    private static func read(_ statement: TPMStatement) throws(Contradiction) {
        _ = try? AttestedContent(statement.certInfo)
        _ = try? AttestedContent(statement.certInfo, isCounter: true)
        _ = AttestedContent.outsideInfo(of: statement.creationData ?? Data())
        let anchors = AttestationAnchors(aik: authorities(among: statement.certificates))
        if let signer = try? AttestationKeyCertificate(
            statement.certificates, anchors: anchors, time: time)
        {
            _ = signer.isValid(statement.signature, for: statement.certInfo)
        }
        if let area = try? P256Area(statement.publicArea) {
            try expect(area.name.bytes.count == 34, "a Name has another length")
        }
        if let policy = try? DeclaredPolicy(
            statement.branches, endsWithAuthValue: statement.endsWithAuthValue)
        {
            try expect(
                [0, 32].contains(policy.digest.count), "a policy's digest has another length")
        }
    }
}
