import Authorities
import Crypto
import Foundation
import Latchkey
import LatchkeyRelyingParty
import X509

/// The requests of an enrolment: an honest client's, and the largest that the parsers and the
/// search for a certificate path accept.
struct Requests {
    /// The manufacturer.
    private let maker = Authority(
        "Maker", key: Certificate.PrivateKey(P384.Signing.PrivateKey()), .ecdsaWithSHA384)
    /// The server's authority for attestation keys.
    private let server: Authority
    private let activating: EndorsementAuthority
    private let verifier: AttestationVerifier
    /// Authorities that no anchor certifies, with the slowest signatures of the supported kinds. A
    /// certificate may have 250 ASN.1 nodes, and names of 25 parts use most of them. RSA keys and
    /// signatures leave less room for names in 2 KiB.
    private let hostile: [(kind: String, authority: Authority)]
    private let key = Certificate.PublicKey(P384.Signing.PrivateKey().publicKey)
    private let client = ForgingClient()

    init() throws {
        let serverKey = P256.Signing.PrivateKey()
        server = Authority("Server", key: Certificate.PrivateKey(serverKey), .ecdsaWithSHA256)
        let (root, certificate) = (try maker.certificate(), try server.certificate())
        let anchors = AttestationAnchors(
            tpm: try AttestationAnchors.Group(roots: [root]),
            piv: try AttestationAnchors.Group(roots: [root]),
            aik: try AttestationAnchors.Group(roots: [certificate]))
        activating = EndorsementAuthority(
            anchors: anchors,
            issuer: try AttestationIssuer(
                certificate: certificate, privateKey: serverKey.pemRepresentation))
        verifier = AttestationVerifier(anchors: anchors, approvalKeys: ListedApprovalKeys([]))
        let ecc = Certificate.PrivateKey(P384.Signing.PrivateKey())
        hostile = [
            ("P-384", Authority("Hostile", names: 25, key: ecc, .ecdsaWithSHA384)),
            (
                "RSA-4096",
                Authority("Hostile", names: 10, key: try Self.rsaKey(), .sha512WithRSAEncryption)
            ),
        ]
    }

    /// An RSA key with the largest size and exponent that the server accepts.
    private static func rsaKey() throws -> Certificate.PrivateKey {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096",
            "-pkeyopt",
            "rsa_keygen_pubexp:4294967295",
        ]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: "openssl did not create an RSA key")
        }
        return try Certificate.PrivateKey(pemEncoded: String(decoding: text, as: UTF8.self))
    }

    // MARK: Activation

    func activations() throws -> [MeasuredRequest] {
        let genuine = try maker.certificate(of: key, as: .endorsement)
        var requests = [try activation("activation, P-384", isHonest: true, [genuine])]
        for (kind, authority) in hostile {
            for leaves in [1, 3] {
                var certificates: [Data] = []
                for position in 0..<4 {
                    certificates.append(
                        position < leaves
                            ? try authority.certificate(of: key, as: .endorsement, length: 2048)
                            : try authority.certificate(length: 2048))
                }
                requests.append(
                    try activation(
                        "activation, \(kind), keys \(leaves), authorities \(4 - leaves)",
                        certificates))
            }
        }
        return requests
    }

    private func activation(_ name: String, isHonest: Bool = false, _ certificates: [Data]) throws
        -> MeasuredRequest
    {
        guard certificates.count <= 4, certificates.reduce(0, { $0 + $1.count }) <= 8192 else {
            throw Failure(description: "\(name) exceeds the limits of a request")
        }
        let area = ForgingClient.area(client.attestationKey.publicKey, attributes: 0x0005_0472)
        return MeasuredRequest(name: name, isHonest: isHonest) { [activating] in
            _ = try activating.challenge(endorsement: certificates, attestationKey: area)
        }
    }

    // MARK: The statement about a key

    func statements() throws -> [MeasuredRequest] {
        let chain = [
            try server.certificate(
                of: Certificate.PublicKey(client.attestationKey.publicKey), as: .attestation),
            try server.certificate(),
        ]
        var requests = [
            try statement("statement, a PIN", isHonest: true, client.pinStatement(chain)),
            // All signatures are valid, but the key has another policy.
            try statement("statement, eight certified counters", client.counterStatement(chain)),
            try statement("statement, nested JSON", client.nestedJSON),
            try statement("statement, JSON with many values", client.manyValues),
            try statement("statement, escaped text", client.escapedText),
            try statement("statement, nested CBOR", client.nestedCBOR),
        ]
        for (kind, authority) in hostile {
            var certificates = [
                try authority.certificate(
                    of: Certificate.PublicKey(client.attestationKey.publicKey), as: .attestation,
                    length: 2048)
            ]
            for _ in 0..<3 { certificates.append(try authority.certificate(length: 2048)) }
            requests.append(try statement("statement, \(kind)", client.pinStatement(certificates)))
            certificates = [try authority.certificate(of: key, as: .attestation, length: 2048)]
            for _ in 0..<3 { certificates.append(try authority.certificate(length: 2048)) }
            requests.append(try statement("YubiKey, \(kind)", client.tokenStatement(certificates)))
        }
        return requests
    }

    /// - Parameter json: The statement. If the client is not honest, it is padded with spaces to
    ///   the maximum size.
    private func statement(_ name: String, isHonest: Bool = false, _ json: Data) throws
        -> MeasuredRequest
    {
        guard json.count <= AttestationStatement.maximumBytes else {
            throw Failure(
                description: "\(name) has \(json.count) bytes, more than a request may have")
        }
        var json = json
        if !isHonest {
            json += Data(repeating: 0x20, count: AttestationStatement.maximumBytes - json.count)
        }
        let key = DevicePublicKey.es256(
            try PublicKey(x963Representation: client.key.publicKey.x963Representation))
        let expectation = AttestationExpectation(
            challenge: ForgingClient.challenge,
            binding: .webAuthn(
                rpID: ForgingClient.rpID, origin: ForgingClient.origin,
                credentialID: ForgingClient.keyID),
            requirement: AttestationRequirement(.presence))
        return MeasuredRequest(name: name, isHonest: isHonest) { [verifier, json] in
            _ = try await verifier.verify(
                try AttestationStatement(json: json), of: key, for: expectation)
        }
    }
}
