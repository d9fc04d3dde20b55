internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// The CBOR attestation object of the format `tpm` (WebAuthn Level 3 sections 6.5.4 and 8.3, CTAP2
/// canonical CBOR). In ACME's it has no `authData`.
enum AttestationObject {
    static func encode(
        certificates: [Data], signature: Data, statement: Data, publicArea: Data,
        authenticatorData: Data?
    ) -> Data {
        var members: [(String, CBOR)] = [
            ("fmt", .text("tpm")),
            (
                "attStmt",
                .map([
                    // ES256 (RFC 9053 section 2.1).
                    ("alg", .negative(7)), ("sig", .bytes(signature)), ("ver", .text("2.0")),
                    ("x5c", .array(certificates.map { .bytes($0) })),
                    ("pubArea", .bytes(publicArea)),
                    ("certInfo", .bytes(statement)),
                ])
            ),
        ]
        if let authenticatorData { members.append(("authData", .bytes(authenticatorData))) }
        return CBOR.map(members).encoded
    }
}

/// The data of a WebAuthn registration to which a statement is bound.
struct WebAuthnContent: Sendable {
    /// The model of the authenticator (AAGUID): Latchkey with a TPM.
    private static let model: [UInt8] = [
        0x9d, 0x3f, 0x41, 0x6a, 0x0c, 0x52, 0x4e, 0x0b, 0x8a, 0x67, 0x5e, 0x1d, 0x2b, 0x90, 0xc4,
        0x38,
    ]

    let authenticatorData: Data
    let clientData: Data

    /// - Returns: nil for a request in another form.
    init?(_ request: AttestationRequest, of key: HardwareKey) {
        let (rpID, origin): (String, String)
        switch request.form {
        case .enrolment(let host, let url), .webAuthn(let host, let url):
            (rpID, origin) = (host, url)
        case .creation, .certify, .acme: return nil
        }
        authenticatorData = Self.authenticatorData(rpID, key)
        // The serialization of WebAuthn Level 3 section 5.8.1.1.
        let escaped = origin.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        clientData = Data(
            (#"{"type":"webauthn.create","challenge":""# + Base64URL.encode(request.challenge)
                + #"","origin":""#
                + escaped + #"","crossOrigin":false}"#).utf8)
    }

    /// The qualifying data of the statement: `SHA-256(authData ‖ SHA-256(clientDataJSON))`.
    var challenge: [UInt8] {
        Array(SHA256.hash(data: authenticatorData + Data(SHA256.hash(data: clientData))))
    }

    /// `SHA-256(rpId) ‖ flags ‖ u32 0 ‖ AAGUID ‖ u16 ‖ credential ID ‖ COSE key` (WebAuthn Level 3
    /// section 6.1; RFC 9053 section 7.1.1).
    private static func authenticatorData(_ rpID: String, _ key: HardwareKey) -> Data {
        // The user was present (1). The hardware verifies the user at each use (4). There is a
        // credential (0x40).
        let flags: UInt8 = key.policy.requirement == .none ? 0x41 : 0x45
        let credentialID = Data(key.id.rawValue.utf8)
        let coseKey: [UInt8] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]
        var data = Data(SHA256.hash(data: Data(rpID.utf8)))
        data += [flags, 0, 0, 0, 0]
        data += model
        data += [0, UInt8(credentialID.count)]
        data += credentialID
        data += coseKey
        data += key.publicKey.x
        data += [0x22, 0x58, 0x20]
        data += key.publicKey.y
        return data
    }
}

/// A CBOR item (RFC 8949), as far as attestation objects contain it.
private indirect enum CBOR {
    /// The number -n.
    case negative(UInt64)
    case bytes(Data)
    case text(String)
    case array([CBOR])
    /// Members in their canonical order: shorter names first.
    case map([(String, CBOR)])

    var encoded: Data {
        switch self {
        case .negative(let number): Self.head(1, number - 1)
        case .bytes(let bytes): Self.head(2, UInt64(bytes.count)) + bytes
        case .text(let text): Self.head(3, UInt64(text.utf8.count)) + Data(text.utf8)
        case .array(let items): items.reduce(Self.head(4, UInt64(items.count))) { $0 + $1.encoded }
        case .map(let members):
            members.reduce(Self.head(5, UInt64(members.count))) {
                $0 + CBOR.text($1.0).encoded + $1.1.encoded
            }
        }
    }

    /// The major type with a number, in the shortest form.
    private static func head(_ type: UInt8, _ number: UInt64) -> Data {
        let bytes = withUnsafeBytes(of: number.bigEndian) { Data($0) }
        return switch number {
        case 0..<24: Data([type << 5 | UInt8(number)])
        case ...0xff: Data([type << 5 | 24]) + bytes.suffix(1)
        case ...0xffff: Data([type << 5 | 25]) + bytes.suffix(2)
        case ...0xffff_ffff: Data([type << 5 | 26]) + bytes.suffix(4)
        default: Data([type << 5 | 27]) + bytes
        }
    }
}
