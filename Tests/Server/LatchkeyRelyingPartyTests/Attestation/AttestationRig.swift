import Crypto
import Foundation
import Latchkey
import SwiftASN1
import TPM2
import X509

@testable import LatchkeyRelyingParty

/// A client without a TPM: it forges the statements of a TPM whose attestation key it has, so that
/// each field can be wrong alone.
struct AttestationRig {
    static let time = AttestationVectors.time
    static let challenge = Data("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)
    static let rpID = "id.example.com"
    static let origin = "https://id.example.com"
    static let keyID = Data("12345678-1234-1234-1234-123456789012".utf8)

    let authority = P256.Signing.PrivateKey()
    let attestationKey = P256.Signing.PrivateKey()
    let approvalKey = P256.Signing.PrivateKey()
    let key = P256.Signing.PrivateKey()

    static let name = distinguishedName("Example AIK CA")

    func authorityCertificate(pathLength: Int? = 0, usage: KeyUsage = KeyUsage(keyCertSign: true))
        throws -> Data
    {
        try Self.certificate(
            authority.publicKey, subject: Self.name, by: authority, issuer: Self.name,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: pathLength))
                Critical(usage)
            })
    }

    static func tpmName(_ without: Int? = nil) throws -> GeneralName {
        let attributes: [(ASN1ObjectIdentifier, String)] = [
            ([2, 23, 133, 2, 1], "id:49424D00"), ([2, 23, 133, 2, 2], "swtpm"),
            ([2, 23, 133, 2, 3], "id:20191023"),
        ]
        return .directoryName(
            DistinguishedName(
                attributes.enumerated().filter { $0.offset != without }.map {
                    RelativeDistinguishedName(
                        RelativeDistinguishedName.Attribute(type: $1.0, utf8String: $1.1))
                }))
    }

    static func attestationKeyExtensions(
        purpose: ASN1ObjectIdentifier = [2, 23, 133, 8, 3], without: Int? = nil,
        isAuthority: Bool = false,
        more: [Certificate.Extension] = []
    ) throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions {
            Critical(
                isAuthority
                    ? BasicConstraints.isCertificateAuthority(maxPathLength: nil)
                    : .notCertificateAuthority)
            Critical(SubjectAlternativeNames([try tpmName(without)]))
            try ExtendedKeyUsage([ExtendedKeyUsage.Usage(oid: purpose)])
        }
        for other in more { try extensions.append(other) }
        return extensions
    }

    func attestationKeyCertificate(
        subject: DistinguishedName = DistinguishedName(), extensions: Certificate.Extensions? = nil,
        start: Date = time,
        by issuer: P256.Signing.PrivateKey? = nil
    ) throws -> Data {
        try Self.certificate(
            attestationKey.publicKey, subject: subject, by: issuer ?? authority, issuer: Self.name,
            start: start,
            extensions: extensions ?? Self.attestationKeyExtensions())
    }

    static func certificate(
        _ key: P256.Signing.PublicKey, subject: DistinguishedName,
        by issuerKey: P256.Signing.PrivateKey,
        issuer: DistinguishedName, start: Date = time, extensions: Certificate.Extensions
    ) throws -> Data {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(key),
            notValidBefore: start - 300, notValidAfter: start + 86_400 * 90, issuer: issuer,
            subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
            issuerPrivateKey: Certificate.PrivateKey(issuerKey))
        var serializer = DER.Serializer()
        try certificate.serialize(into: &serializer)
        return Data(serializer.serializedBytes)
    }

    func anchors() throws -> AttestationAnchors {
        AttestationAnchors(aik: try .init(roots: [authorityCertificate()]))
    }

    func verifier(
        _ anchors: AttestationAnchors? = nil, knowsApprovalKey: Bool = true, time: Date = time
    ) throws -> AttestationVerifier {
        AttestationVerifier(
            anchors: try anchors ?? self.anchors(),
            approvalKeys: ListedApprovalKeys(
                knowsApprovalKey ? [Data(Self.tpmName(of: approvalArea()))] : []),
            clock: WallClock { time })
    }

    static func expectation(
        _ requirement: AttestationRequirement = .init(.none), challenge: Data = challenge,
        origin: String = origin,
        rpID: String = rpID, keyID: Data = keyID, requiresNewKey: Bool = false
    ) -> AttestationExpectation {
        AttestationExpectation(
            challenge: challenge,
            binding: .webAuthn(rpID: rpID, origin: origin, credentialID: keyID),
            requirement: requirement, requiresNewKey: requiresNewKey)
    }

    var deviceKey: DevicePublicKey {
        get throws { .es256(try PublicKey(x963Representation: key.publicKey.x963Representation)) }
    }
}

// MARK: Structures of a TPM

extension AttestationRig {
    static let signsOnly = ObjectAttributes(rawValue: 0x0004_0032)

    static func area(
        _ key: P256.Signing.PublicKey, attributes: ObjectAttributes, policy: [UInt8] = [],
        scheme: Scheme = .ecdsaSHA256,
        nameAlgorithm: TPMAlgorithm = .sha256
    ) -> Data {
        let point = Array(key.x963Representation.dropFirst())
        return Data(
            PublicArea(
                nameAlgorithm: nameAlgorithm, attributes: attributes, authPolicy: policy,
                detail: .ecc(
                    ECCParameters(scheme: scheme),
                    ECCPoint(x: Array(point.prefix(32)), y: Array(point.suffix(32))))
            ).marshalled)
    }

    func approvalArea(_ attributes: UInt32 = 0x0004_0472) -> Data {
        Self.area(approvalKey.publicKey, attributes: ObjectAttributes(rawValue: attributes))
    }

    static func tpmName(of area: Data) -> [UInt8] { [0x00, 0x0b] + Array(SHA256.hash(data: area)) }

    static func certInfo(
        type: UInt16 = 0x8017, extraData: Data, name: [UInt8], second: [UInt8] = [0, 11],
        magic: UInt32 = 0xff54_4347
    ) -> Data {
        Data(
            TPMWriter(
                magic, type, TPM2B([0, 11]), TPM2B(Array(extraData)), UInt64(1), UInt32(2),
                UInt32(3), UInt8(1),
                UInt64(4),
                TPM2B(name), TPM2B(second)
            ).bytes)
    }

    func signature(_ message: Data) throws -> Data {
        try attestationKey.signature(for: message).derRepresentation
    }
}

// MARK: The wire

/// A statement whose parts can be replaced before it is encoded.
struct ForgedStatement {
    var certificates: [Data]
    var area: Data
    var type: UInt16 = 0x8017
    var magic: UInt32 = 0xff54_4347
    var second: [UInt8] = [0, 11]
    var creationData: Data?
    var name: [UInt8]?
    var flags: UInt8 = 0x45
    var authenticatorData: Data?
    var clientData: Data?
    var signature: Data?
    var certInfo: Data?
    var presence: String?
    var version = "2.0"
    var format = "tpm"

    func json(_ rig: AttestationRig) throws -> Data {
        let x = Data(rig.key.publicKey.x963Representation.dropFirst().prefix(32))
        let y = Data(rig.key.publicKey.x963Representation.suffix(32))
        let head =
            Data(SHA256.hash(data: Data(AttestationRig.rpID.utf8))) + Data([flags, 0, 0, 0, 0])
            + Data(count: 16)
        let id = Data([0, UInt8(AttestationRig.keyID.count)]) + AttestationRig.keyID
        let authenticatorData =
            authenticatorData ?? head + id + Data([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 0x20])
            + x
            + Data([0x22, 0x58, 0x20]) + y
        let challenge = Base64URL.encode(AttestationRig.challenge)
        let clientData =
            clientData
            ?? Data(
                #"{"type":"webauthn.create","challenge":"\#(challenge)","origin":"\#(AttestationRig.origin)","crossOrigin":false}"#
                    .utf8)
        let extraData = Data(
            SHA256.hash(data: authenticatorData + Data(SHA256.hash(data: clientData))))
        let certInfo =
            certInfo
            ?? AttestationRig.certInfo(
                type: type, extraData: extraData, name: name ?? AttestationRig.tpmName(of: area),
                second: second,
                magic: magic)
        var members: [(String, CBOR)] = [
            ("alg", .negative(7)), ("sig", .bytes(try signature ?? rig.signature(certInfo))),
            ("ver", .text(version)),
            ("x5c", .array(certificates.map(CBOR.bytes))), ("pubArea", .bytes(area)),
            ("certInfo", .bytes(certInfo)),
        ]
        if let creationData { members.append(("creationData", .bytes(creationData))) }
        let object = CBOR.map([
            ("fmt", .text(format)), ("attStmt", .map(members)),
            ("authData", .bytes(authenticatorData)),
        ])
        return Self.json(object.encoded, clientData: clientData, presence: presence)
    }

    static func json(_ object: Data, clientData: Data?, presence: String?) -> Data {
        var text = #"{"format":"tpm","object":"\#(Base64URL.encode(object))""#
        if let clientData { text += #","client_data":"\#(Base64URL.encode(clientData))""# }
        if let presence { text += #","presence":\#(presence)"# }
        return Data((text + "}").utf8)
    }
}

/// Writes CBOR in its shortest form.
indirect enum CBOR {
    case negative(Int)
    case bytes(Data)
    case text(String)
    case array([CBOR])
    case map([(String, CBOR)])

    var encoded: Data {
        switch self {
        case .negative(let value): Self.head(1, value - 1)
        case .bytes(let bytes): Self.head(2, bytes.count) + bytes
        case .text(let text): Self.head(3, text.utf8.count) + Data(text.utf8)
        case .array(let values): values.reduce(Self.head(4, values.count)) { $0 + $1.encoded }
        case .map(let members):
            members.reduce(Self.head(5, members.count)) {
                $0 + CBOR.text($1.0).encoded + $1.1.encoded
            }
        }
    }

    private static func head(_ major: UInt8, _ value: Int) -> Data {
        switch value {
        case 0...23: Data([major << 5 | UInt8(value)])
        case 24...255: Data([major << 5 | 24, UInt8(value)])
        default: Data([major << 5 | 25, UInt8(value >> 8), UInt8(value & 0xff)])
        }
    }
}

extension AttestationRig {
    static func distinguishedName(_ name: String) -> DistinguishedName {
        DistinguishedName([
            RelativeDistinguishedName(
                RelativeDistinguishedName.Attribute(type: [2, 5, 4, 3], utf8String: name))
        ])
    }
}
