import Crypto
import CryptoExtras
import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import Logging
import SwiftASN1
import TPM2
import Testing
import X509

@testable import latchkey_identity

/// A client with a TPM in memory: it opens challenges with its endorsement key and signs statements
/// with its attestation key.
struct TestTPM: Sendable {
    private let maker = P256.Signing.PrivateKey()
    private let endorsementKey = P256.Signing.PrivateKey()
    let attestationKey = P256.Signing.PrivateKey()
    private let approvalKey = P256.Signing.PrivateKey()
    private let secondApprovalKey = P256.Signing.PrivateKey()

    /// The kinds of keys that the TPM can create.
    enum Kind: Sendable {
        /// Opens without user verification.
        case bare
        case pin
        /// Opens with an approval by the approval key only.
        case finger(reuse: UInt16 = 0)
        /// Opens with an approval by either of the two approval keys only.
        case twoBrokers
        /// A software key, imported into the TPM.
        case imported
    }

    // MARK: Certificates

    private static let name = DistinguishedName([
        RelativeDistinguishedName(
            RelativeDistinguishedName.Attribute(type: [2, 5, 4, 3], utf8String: "Test maker"))
    ])

    private func certificate(
        _ key: P256.Signing.PublicKey, _ subject: DistinguishedName,
        _ extensions: Certificate.Extensions
    ) throws -> Data {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(key),
            notValidBefore: Date() - 300, notValidAfter: Date() + 86_400, issuer: Self.name,
            subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
            issuerPrivateKey: Certificate.PrivateKey(maker))
        var serializer = DER.Serializer()
        try certificate.serialize(into: &serializer)
        return Data(serializer.serializedBytes)
    }

    /// The certificate of the endorsement key.
    var endorsement: Data {
        get throws {
            let attributes: [(ASN1ObjectIdentifier, String)] = [
                ([2, 23, 133, 2, 1], "id:49424D00"), ([2, 23, 133, 2, 2], "<swtpm>"),
                ([2, 23, 133, 2, 3], "id:20191023"),
            ]
            let tpm = DistinguishedName(
                attributes.map {
                    RelativeDistinguishedName(
                        RelativeDistinguishedName.Attribute(type: $0.0, utf8String: $0.1))
                })
            return try certificate(
                endorsementKey.publicKey, DistinguishedName(),
                Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(SubjectAlternativeNames([.directoryName(tpm)]))
                    try ExtendedKeyUsage([ExtendedKeyUsage.Usage(oid: [2, 23, 133, 8, 1])])
                })
        }
    }

    /// The maker's certificate, DER.
    var root: Data {
        get throws {
            try certificate(
                maker.publicKey, Self.name,
                Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                })
        }
    }

    /// Writes the maker's root certificate to a directory of anchors.
    ///
    /// - Parameters:
    ///   - kind: The subdirectory: `tpm`, or `simulated` for the maker of a simulator.
    ///   - path: The directory of anchors; nil for a new one.
    /// - Returns: The path of the directory.
    func anchors(
        in directory: TemporaryDirectory, as kind: String = "tpm", at path: String? = nil
    ) throws -> String {
        let path = path ?? directory.path(of: UUID().uuidString)
        let roots = "\(path)/\(kind)/roots"
        try FileManager.default.createDirectory(atPath: roots, withIntermediateDirectories: true)
        try root.write(to: URL(filePath: roots + "/maker.der"))
        return path
    }

    // MARK: Keys

    private static func area(
        _ key: P256.Signing.PublicKey, _ attributes: UInt32, policy: [UInt8] = []
    ) -> Data {
        let point = Array(key.x963Representation.dropFirst())
        return Data(
            PublicArea(
                nameAlgorithm: .sha256, attributes: ObjectAttributes(rawValue: attributes),
                authPolicy: policy,
                detail: .ecc(
                    ECCParameters(scheme: .ecdsaSHA256),
                    ECCPoint(x: Array(point.prefix(32)), y: Array(point.suffix(32))))
            ).marshalled)
    }

    static func tpmName(_ area: Data) -> Data { Data([0, 11]) + Data(SHA256.hash(data: area)) }

    /// The attestation key, `TPMT_PUBLIC`.
    var attestationArea: Data { Self.area(attestationKey.publicKey, 0x0005_0472) }

    var attestationPublicKey: PublicKey {
        get throws {
            try PublicKey(x963Representation: attestationKey.publicKey.x963Representation)
        }
    }

    var approvalArea: Data { Self.area(approvalKey.publicKey, 0x0004_0472) }

    /// The Name of the approval key.
    var approvalKeyName: Data { Self.tpmName(approvalArea) }

    private var secondApprovalArea: Data { Self.area(secondApprovalKey.publicKey, 0x0004_0472) }

    /// The Name of the second approval key.
    var secondApprovalKeyName: Data { Self.tpmName(secondApprovalArea) }

    /// The digest and the JSON of a branch that an approval key opens.
    private static func branch(of approvalArea: Data, reuse: UInt16 = 0) -> (
        digest: PolicyDigest, json: String
    ) {
        let reference = TPMWriter(
            TPM2B(Array("org.latchkey.presence/v1/approval".utf8)), UInt32(1000),
            TPM2B(Array("biometry-any".utf8)), reuse, TPM2B())
        let digest = PolicyDigest().signed(
            by: TPMName(bytes: Array(tpmName(approvalArea))),
            policyRef: Array(SHA256.hash(data: reference.bytes)))
        let json =
            #"{"type":"signed","key":"\#(Base64URL.encode(approvalArea))","user":1000,"requirement":"biometry-any","#
            + #""reuse":\#(reuse)}"#
        return (digest, json)
    }

    /// The public area of a key and the JSON of its branches.
    private func area(_ kind: Kind, _ key: P256.Signing.PublicKey) -> (
        area: Data, presence: String?
    ) {
        switch kind {
        case .bare: return (Self.area(key, 0x0004_0472), nil)
        case .pin: return (Self.area(key, 0x0004_0072), nil)
        case .imported: return (Self.area(key, 0x0004_0440), nil)
        case .finger(let reuse):
            let branch = Self.branch(of: approvalArea, reuse: reuse)
            return (
                Self.area(key, 0x0004_0432, policy: branch.digest.bytes),
                #"{"version":1,"branches":[\#(branch.json)]}"#
            )
        case .twoBrokers:
            let branches = [approvalArea, secondApprovalArea].map { Self.branch(of: $0) }
            return (
                Self.area(
                    key, 0x0004_0432,
                    policy: PolicyDigest.or(branches.map(\.digest))?.bytes ?? []),
                #"{"version":1,"branches":[\#(branches.map(\.json).joined(separator: ","))]}"#
            )
        }
    }

    // MARK: Activation

    /// The body of a request to activate the attestation key.
    var activationBody: String {
        get throws {
            #"{"ek_certificates":["\#(Base64URL.encode(try endorsement))"],"#
                + #""attestation_key":"\#(Base64URL.encode(attestationArea))"}"#
        }
    }

    /// Opens the server's message as a TPM does.
    ///
    /// - Parameter answer: The answer of `POST A/activation`.
    func secret(of answer: JSONValue) throws -> Data {
        func bytes(_ name: String) throws -> Data {
            try #require(answer[name]?.string.flatMap { Base64URL.decode($0) })
        }
        let blob = try bytes("credential_blob")
        var reader = TPMReader(try bytes("encrypted_secret"))
        let (x, y) = (try reader.readSized(maximum: 32), try reader.readSized(maximum: 32))
        let own = try P256.KeyAgreement.PrivateKey(
            rawRepresentation: endorsementKey.rawRepresentation)
        let seed = KeyDerivation.kdfe(
            sharedSecret: try own.sharedSecretFromKeyAgreement(
                with: P256.KeyAgreement.PublicKey(x963Representation: [4] + x + y)),
            label: "IDENTITY", partyU: x, partyV: Array(own.publicKey.rawRepresentation.prefix(32)))
        let message =
            [0, 0, 0, 1] + Array("STORAGE".utf8) + [0] + Self.tpmName(attestationArea) + [
                0, 0, 0, 128,
            ]
        let key = SymmetricKey(
            data: Data(HMAC<SHA256>.authenticationCode(for: message, using: seed)).prefix(16))
        let plain = try AES._CFB.decrypt(
            blob.dropFirst(34), using: key,
            iv: AES._CFB.IV(ivBytes: [UInt8](repeating: 0, count: 16)))
        return plain.dropFirst(2)
    }

    /// Activates the attestation key.
    ///
    /// - Returns: The certificates, the attestation key's first.
    func activate(on server: TestServer, bearer: String) async throws -> [Data] {
        let begun = try await server.post(
            "/attestation/activation", json: activationBody, bearer: bearer)
        try #require(begun.status == 201, "\(begun.body)")
        let id = try #require(try begun.json["id"]?.string)
        let secret = Base64URL.encode(try secret(of: begun.json))
        let answer = try await server.post(
            "/attestation/activation/\(id)", json: #"{"secret":"\#(secret)"}"#, bearer: bearer
        ).success()
        return try #require(answer["x5c"]?.array).map {
            try #require($0.string.flatMap { Base64URL.decode($0) })
        }
    }

    // MARK: Statements

    /// The JSON of a statement by `TPM2_Certify`.
    ///
    /// - Parameters:
    ///   - kid: The name of the key in the signed request.
    ///   - challenge: The token in the signed request.
    func statement(
        _ kind: Kind, of key: P256.Signing.PrivateKey, named kid: String, challenge: String,
        origin: String,
        certificates: [Data]
    ) throws -> String {
        let (area, presence) = area(kind, key.publicKey)
        let binding = try Binding(key.publicKey, named: kid, challenge: challenge, origin: origin)
        let certInfo = Data(
            TPMWriter(
                UInt32(0xff54_4347), UInt16(0x8017), TPM2B([0, 11]),
                TPM2B(Array(binding.extraData)), UInt64(1),
                UInt32(2), UInt32(3), UInt8(1), UInt64(4), TPM2B(Array(Self.tpmName(area))),
                TPM2B([0, 11])
            ).bytes)
        return Self.json(
            binding, certInfo: certInfo,
            signature: try attestationKey.signature(for: certInfo).derRepresentation,
            area: area, certificates: certificates, presence: presence)
    }

    /// The data of WebAuthn to which a statement is bound.
    struct Binding {
        let authenticatorData: Data
        let clientData: Data

        init(_ key: P256.Signing.PublicKey, named kid: String, challenge: String, origin: String)
            throws
        {
            let point = key.x963Representation.dropFirst()
            let host = try #require(URL(string: origin)?.host())
            var data =
                Data(SHA256.hash(data: Data(host.utf8))) + [0x45, 0, 0, 0, 0] + Data(count: 16)
            data += Data([0, UInt8(kid.utf8.count)]) + Data(kid.utf8)
            data += Data([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 0x20]) + point.prefix(32)
            data += Data([0x22, 0x58, 0x20]) + point.suffix(32)
            authenticatorData = data
            clientData = Data(
                (#"{"type":"webauthn.create","challenge":"\#(Base64URL.encode(Data(challenge.utf8)))","#
                    + #""origin":"\#(origin)","crossOrigin":false}"#).utf8)
        }

        var extraData: Data {
            Data(SHA256.hash(data: authenticatorData + Data(SHA256.hash(data: clientData))))
        }
    }

    /// The JSON of a statement.
    ///
    /// - Parameter binding: Nil for a statement whose qualifying data is the challenge.
    static func json(
        _ binding: Binding?, certInfo: Data, signature: Data, area: Data, certificates: [Data],
        presence: String? = nil
    ) -> String {
        var object =
            cbor(5, binding == nil ? 2 : 3) + text("fmt") + text("tpm") + text("attStmt")
            + cbor(5, 6)
        object += text("alg") + cbor(1, 6) + text("sig") + bytes(signature)
        object += text("ver") + text("2.0") + text("x5c") + cbor(4, certificates.count)
        for certificate in certificates { object += bytes(certificate) }
        object += text("pubArea") + bytes(area) + text("certInfo") + bytes(certInfo)
        if let binding { object += text("authData") + bytes(binding.authenticatorData) }
        return #"{"format":"tpm","object":"\#(Base64URL.encode(object))""#
            + (binding.map { #","client_data":"\#(Base64URL.encode($0.clientData))""# } ?? "")
            + (presence.map { #","presence":\#($0)"# } ?? "") + "}"
    }

    /// The head of a CBOR data item (RFC 8949 section 3).
    static func cbor(_ type: UInt8, _ value: Int) -> Data {
        switch value {
        case 0...23: Data([type << 5 | UInt8(value)])
        case 24...255: Data([type << 5 | 24, UInt8(value)])
        default: Data([type << 5 | 25, UInt8(value >> 8), UInt8(value & 0xff)])
        }
    }

    static func text(_ text: String) -> Data { cbor(3, text.utf8.count) + Data(text.utf8) }
    static func bytes(_ bytes: Data) -> Data { cbor(2, bytes.count) + bytes }
}

extension TestServer {
    /// Starts a server that trusts a TPM's maker, and runs `body`.
    static func runAttested(
        _ configure: (inout ServerConfiguration, inout AttestationConfiguration, TestTPM) -> Void =
            { _, _, _ in },
        isSimulated: Bool = false, logger: Logger? = nil,
        body: @Sendable (TestServer, TestTPM) async throws -> Void
    ) async throws {
        let tpm = TestTPM()
        try await TemporaryDirectory.withDirectory { directory in
            let anchors = try tpm.anchors(in: directory, as: isSimulated ? "simulated" : "tpm")
            func configured(_ configuration: inout ServerConfiguration) {
                var attestation = AttestationConfiguration()
                attestation.anchors = anchors
                configure(&configuration, &attestation, tpm)
                configuration.attestation = attestation
            }
            try await run(configured, logger: logger ?? quiet) { try await body($0, tpm) }
        }
    }

    /// Sets up biometric login with a key in the TPM.
    func setUp(
        _ device: TestDevice, _ kind: TestTPM.Kind, in tpm: TestTPM, certificates: [Data],
        bearer: String,
        statementChallenge: String? = nil, client: String = "app"
    ) async throws -> Answer {
        guard case .es256(let key) = device.key else { throw UnsupportedKey() }
        let challenge = try await challenge()
        let statement = try tpm.statement(
            kind, of: key, named: device.kid, challenge: statementChallenge ?? challenge,
            origin: origin,
            certificates: certificates)
        return try await biometric(
            device.setup(
                challenge: challenge, now: time.seconds, payload: ["client_id": .string(client)]),
            bearer: bearer, client: client,
            overriding: ["attestation": statement])
    }

    private struct UnsupportedKey: Error {}
}

extension Answer {
    /// Expects `attestation_refused` with this reason.
    func expectRefused(
        _ reason: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(status == 400, "\(body)", sourceLocation: sourceLocation)
        #expect(
            try json == [
                "error": "attestation_refused", "reason": .string(reason.rawValue),
                "error_description": "the attestation does not meet the server's requirements",
            ], sourceLocation: sourceLocation)
    }

    /// Expects the answer to a malformed or forged attestation.
    func expectForged(sourceLocation: SourceLocation = #_sourceLocation) throws {
        try expectRefusal(
            400, "invalid_grant", "the attestation is not accepted", sourceLocation: sourceLocation)
    }
}
