import Crypto
import Foundation

/// A client without a TPM, which signs a TPM's statements with an attestation key in software.
struct ForgingClient {
    static let challenge = Data("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)
    static let rpID = "id.example.com"
    static let origin = "https://id.example.com"
    static let keyID = Data("12345678-1234-1234-1234-123456789012".utf8)
    private static let user = UInt32(1000)

    let attestationKey = P256.Signing.PrivateKey()
    let key = P256.Signing.PrivateKey()
    private let approvalKey = P256.Signing.PrivateKey()

    // MARK: Statements

    /// Returns a statement about a key with its own PIN.
    ///
    /// - Parameter certificates: The certificates of the attestation key and its issuers, DER.
    func pinStatement(_ certificates: [Data]) throws -> Data {
        let certify = Self.hash(
            Self.joined(Data(count: 32), Self.bytes(UInt32(0x16c)), Self.bytes(UInt32(0x148))))
        return try statement(
            certificates, area: Self.area(key.publicKey, attributes: 0x0004_0072, policy: certify),
            presence: #"{"version":1,"branches":[{"type":"certify"}]}"#)
    }

    /// Returns a statement about a key whose policy is claimed to have eight branches, each with a
    /// counter of enrolled fingers that `NV_Certify` proves.
    func counterStatement(_ certificates: [Data]) throws -> Data {
        let area = Self.area(key.publicKey, attributes: 0x0004_04b2, policy: Data(count: 32))
        let approval = Self.area(approvalKey.publicKey, attributes: 0x0004_0472)
        // PolicySigned of the approval key, for a change of the enrolled fingers.
        let reference = Self.hash(
            Self.sized(Data("org.latchkey.presence/v1/enrolment-change".utf8))
                + Self.bytes(Self.user))
        let signed = Self.hash(
            Self.hash(Self.joined(Data(count: 32), Self.bytes(UInt32(0x160)), Self.name(approval)))
                + reference)
        let index = Self.joined(
            Self.bytes(UInt32(0x0180_4c01)), Self.bytes(UInt16(0x000b)),
            Self.bytes(UInt32(0x2206_0018)),
            Self.sized(signed), Self.bytes(UInt16(8)))
        let content = Self.joined(
            Self.sized(Self.name(index)), Self.bytes(UInt16(0)), Self.sized(Self.bytes(UInt64(7))))
        let certInfo = self.certInfo(type: 0x8014, content: content)
        let signature = try attestationKey.signature(for: certInfo).derRepresentation
        let branch = #"""
            {"type":"signed","key":"\#(approval.base64URL)","user":\#(Self.user),"requirement":"biometry-current-set",\#
            "reuse":0,"set":"\#(Self.hash(Data("fingers".utf8)).base64URL)","counter":{"index":"\#(index.base64URL)",\#
            "value":7,"certInfo":"\#(certInfo.base64URL)","sig":"\#(signature.base64URL)"}}
            """#
        let branches = [String](repeating: branch, count: 8).joined(separator: ",")
        return try statement(
            certificates, area: area, presence: #"{"version":1,"branches":[\#(branches)]}"#)
    }

    /// Returns a YubiKey's statement.
    ///
    /// - Parameter certificates: The attestation of the key, the certificate in slot F9, and its
    ///   issuers, DER.
    func tokenStatement(_ certificates: [Data]) -> Data {
        let list = certificates.map { "\"\($0.base64URL)\"" }.joined(separator: ",")
        return Data(#"{"format":"piv","certificates":[\#(list)]}"#.utf8)
    }

    /// Nested arrays with 504 separators. The server accepts 512 (`ClientJSON`).
    var nestedJSON: Data {
        let (open, close) = (String(repeating: "[", count: 500), String(repeating: "]", count: 500))
        return Data(#"{"format":"tpm","x":\#(open)\#(close)}"#.utf8)
    }

    /// Objects in one array, with 483 separators. The server accepts 512.
    var manyValues: Data {
        let values = [String](repeating: #"{"k":"value"}"#, count: 160).joined(separator: ",")
        return Data(#"{"format":"tpm","x":[\#(values)]}"#.utf8)
    }

    /// A format that consists of escape sequences.
    var escapedText: Data {
        Data(#"{"format":"\#(String(repeating: #"\u00e9"#, count: 2700))"}"#.utf8)
    }

    /// Nested arrays instead of an attestation object.
    var nestedCBOR: Data {
        let object = Data(repeating: 0x81, count: 12_000) + Data([0])
        return Data(#"{"format":"tpm","object":"\#(object.base64URL)"}"#.utf8)
    }

    // MARK: Structures

    private func statement(_ certificates: [Data], area: Data, presence: String) throws -> Data {
        let certInfo = self.certInfo(
            type: 0x8017, content: Self.sized(Self.name(area)) + Self.sized(Data([0, 11])))
        let signature = try attestationKey.signature(for: certInfo).derRepresentation
        let members: [(String, CBOR)] = [
            ("alg", .negative(7)), ("sig", .bytes(signature)), ("ver", .text("2.0")),
            ("x5c", .array(certificates.map(CBOR.bytes))), ("pubArea", .bytes(area)),
            ("certInfo", .bytes(certInfo)),
        ]
        let object = CBOR.map([
            ("fmt", .text("tpm")), ("attStmt", .map(members)),
            ("authData", .bytes(authenticatorData)),
        ])
        return Data(
            (#"{"format":"tpm","object":"\#(object.encoded.base64URL)","client_data":"\#(Self.clientData.base64URL)","#
                + #""presence":\#(presence)}"#).utf8)
    }

    /// WebAuthn's authenticator data for the key (WebAuthn Level 3 section 6.1).
    private var authenticatorData: Data {
        let point = key.publicKey.rawRepresentation
        return Self.joined(
            Self.hash(Data(Self.rpID.utf8)), Data([0x45, 0, 0, 0, 0]), Data(count: 16),
            Self.sized(Self.keyID),
            Data([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 0x20]), point.prefix(32),
            Data([0x22, 0x58, 0x20]),
            point.suffix(32))
    }

    private static let clientData = Data(
        (#"{"type":"webauthn.create","challenge":"\#(challenge.base64URL)","origin":"\#(origin)","#
            + #""crossOrigin":false}"#).utf8)

    /// `TPMS_ATTEST` for the challenge.
    private func certInfo(type: UInt16, content: Data) -> Data {
        let extraData = Self.hash(authenticatorData + Self.hash(Self.clientData))
        return Self.joined(
            Self.bytes(UInt32(0xff54_4347)), Self.bytes(type), Self.sized(Data([0, 11])),
            Self.sized(extraData),
            Self.bytes(UInt64(1)), Self.bytes(UInt32(2)), Self.bytes(UInt32(3)), Data([1]),
            Self.bytes(UInt64(4)),
            content)
    }

    /// `TPMT_PUBLIC` of a P-256 key with the scheme ECDSA-SHA256.
    static func area(_ key: P256.Signing.PublicKey, attributes: UInt32, policy: Data = Data())
        -> Data
    {
        let point = key.rawRepresentation
        let algorithms: [UInt8] = [0, 0x10, 0, 0x18, 0, 0x0b, 0, 3, 0, 0x10]
        return joined(
            Data([0, 0x23, 0, 0x0b]), bytes(attributes), sized(policy), Data(algorithms),
            sized(point.prefix(32)),
            sized(point.suffix(32)))
    }

    private static func joined(_ parts: Data...) -> Data { parts.reduce(Data(), +) }

    /// The Name of an object or index.
    private static func name(_ area: Data) -> Data { Data([0, 0x0b]) + hash(area) }

    private static func hash(_ bytes: Data) -> Data { Data(SHA256.hash(data: bytes)) }

    /// A `TPM2B`.
    private static func sized(_ content: Data) -> Data { bytes(UInt16(content.count)) + content }

    private static func bytes(_ number: some FixedWidthInteger) -> Data {
        withUnsafeBytes(of: number.bigEndian) { Data($0) }
    }
}

/// Writes CBOR in its shortest form.
private enum CBOR {
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

extension Data {
    fileprivate var base64URL: String {
        base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
            "=", with: "")
    }
}
