public import FoundationEssentials
internal import Latchkey

/// A client's attestation of a key, as it was received: the JSON of the member `attestation`. It is
/// not verified.
///
/// A TPM's statement is `{"format": "tpm", "object", "client_data", "presence"}`. `object` is a
/// WebAuthn attestation object of format `tpm` (WebAuthn Level 3 section 8.3) in base64url; ACME's
/// has no `authData`. `presence` declares the branches of the key's policy. A YubiKey's statement
/// is `{"format": "piv", "certificates"}`.
public struct AttestationStatement: Hashable, Sendable {
    /// The maximum size of the JSON in bytes.
    public static let maximumBytes = 16 << 10

    enum Content: Hashable, Sendable {
        case tpm(TPMStatement)
        /// The attestation of the key, the certificate in slot F9, and any intermediates, DER.
        case piv([Data])
    }

    let content: Content

    /// Reads the JSON.
    ///
    /// - Parameter json: At most 16 KiB.
    /// - Throws: ``AttestationError`` with code `unsupportedFormat` or `malformed`.
    public init(json: Data) throws(AttestationError) {
        guard json.count <= Self.maximumBytes else {
            throw AttestationError(.malformed, "the attestation has \(json.count) bytes")
        }
        let wire: Wire
        do {
            wire = try ReceivedJSON.decode(
                Wire.self, from: json, maximumSeparators: ReceivedJSON.requestSeparators)
        } catch {
            throw AttestationError(
                .malformed,
                "the attestation is not the expected JSON: \(ReceivedJSON.reason(of: error))")
        }
        switch wire.format {
        case KeyAttestation.tpm: content = .tpm(try TPMStatement(wire))
        case KeyAttestation.piv:
            guard let texts = wire.certificates, (2...4).contains(texts.count) else {
                throw AttestationError(
                    .malformed, "a PIV attestation does not have 2 to 4 certificates")
            }
            content = .piv(try Self.certificates(texts.map(Base64URL.decode)))
        default: throw AttestationError(.unsupportedFormat, "the format is not known")
        }
    }

    static func certificates(_ list: [Data?]) throws(AttestationError) -> [Data] {
        var certificates: [Data] = []
        for bytes in list {
            guard let bytes, bytes.count <= HardwareCertificate.maximumBytes else {
                throw AttestationError(
                    .malformed, "a certificate is not base64url, or has more than 4096 bytes")
            }
            certificates.append(bytes)
        }
        guard certificates.reduce(0, { $0 + $1.count }) <= HardwareCertificate.maximumChainBytes
        else {
            throw AttestationError(
                .malformed, "the certificates have more than 8192 bytes together")
        }
        return certificates
    }

    /// The JSON.
    struct Wire: Decodable {
        struct Presence: Decodable {
            let version: Int
            let auth_value: Bool?
            let branches: [Branch]
        }

        struct Branch: Decodable {
            let type: String
            let key: String?
            let user: UInt32?
            let requirement: String?
            let reuse: UInt16?
            let set: String?
            let counter: Counter?
            let index: String?
            let reset: String?
        }

        struct Counter: Decodable {
            let index: String
            let value: UInt64
            let certInfo: String?
            let sig: String?
        }

        let format: String
        let object: String?
        let client_data: String?
        let presence: Presence?
        let certificates: [String]?
    }
}

/// A TPM's statement, decoded and not verified.
struct TPMStatement: Hashable, Sendable {
    /// The certificates of the attestation key, its own first, DER.
    let certificates: [Data]
    /// `TPMS_ATTEST`.
    let certInfo: Data
    /// The signature of ``certInfo``: an ECDSA signature in DER (WebAuthn) or a `TPMT_SIGNATURE`
    /// (ACME).
    let signature: Data
    /// The attested key, `TPMT_PUBLIC`.
    let publicArea: Data
    /// `TPMS_CREATION_DATA`, if it was sent.
    let creationData: Data?
    /// WebAuthn's authenticator data, if it was sent.
    let authenticatorData: Data?
    /// The JSON of WebAuthn's client data, if it was sent.
    let clientData: Data?
    /// The declared branches of the key's policy, in their order.
    let branches: [DeclaredBranch]
    /// Whether the policy ends with `PolicyAuthValue`: a policy with a reuse time does.
    let endsWithAuthValue: Bool

    init(_ wire: AttestationStatement.Wire) throws(AttestationError) {
        guard let text = wire.object else {
            throw AttestationError(
                .malformed,
                "there is no attestation object: the attestation key has no certificate")
        }
        guard let object = Base64URL.decode(text).map({ Array($0) }) else {
            throw AttestationError(.malformed, "the attestation object is not base64url")
        }
        clientData = try Self.decode(wire.client_data, "client_data", maximum: 2048)
        if let presence = wire.presence {
            guard presence.version == 1, presence.branches.count <= 8 else {
                throw AttestationError(
                    .malformed, "the declared policy has an unknown version or more than 8 branches"
                )
            }
            var branches: [DeclaredBranch] = []
            for branch in presence.branches { branches.append(try DeclaredBranch(branch)) }
            self.branches = branches
            endsWithAuthValue = presence.auth_value ?? false
        } else {
            branches = []
            endsWithAuthValue = false
        }

        let value: CBORValue
        do {
            value = try CBORReader.read(object[...])
        } catch {
            throw AttestationError(.malformed, error.reason)
        }
        guard let format = value.map?["fmt"]?.text, let members = value.map?["attStmt"]?.map else {
            throw AttestationError(.malformed, "the attestation object has no fmt or no attStmt")
        }
        guard format == "tpm", members["ver"]?.text == "2.0" else {
            throw AttestationError(.unsupportedFormat, "the attestation object is not a TPM 2.0's")
        }
        for name in ["alg", "x5c", "sig", "certInfo", "pubArea"]
        where members[.text(name)] == nil {
            throw AttestationError(.malformed, "the attestation object has no member ‘\(name)’")
        }
        guard case .integer(let algorithm) = members["alg"] else {
            throw AttestationError(.malformed, "the member ‘alg’ is not an integer")
        }
        // ES256 (RFC 9053 section 2.1).
        guard algorithm == -7 else {
            throw AttestationError(
                .unsupportedFormat,
                "the statement is signed with the algorithm \(algorithm); only -7 (ES256) is supported"
            )
        }
        guard let x5c = members["x5c"]?.array,
            (1...4).contains(x5c.count),
            let signature = members["sig"]?.bytes, let certInfo = members["certInfo"]?.bytes,
            let publicArea = members["pubArea"]?.bytes
        else {
            throw AttestationError(
                .malformed,
                "a member of the attestation object has the wrong type, or x5c has not 1 to 4 certificates"
            )
        }
        guard signature.count <= 256, certInfo.count <= 1024, publicArea.count <= 1024 else {
            throw AttestationError(.malformed, "a member of the attestation object is too long")
        }
        certificates = try AttestationStatement.certificates(x5c.map { $0.bytes.map { Data($0) } })
        self.certInfo = Data(certInfo)
        self.signature = Data(signature)
        self.publicArea = Data(publicArea)
        creationData = try Self.bytes(members["creationData"], "creationData")
        authenticatorData = try Self.bytes(value.map?["authData"], "authData")
    }

    private static func bytes(_ value: CBORValue?, _ name: String) throws(AttestationError) -> Data?
    {
        guard let value else { return nil }
        guard let bytes = value.bytes, bytes.count <= 2048 else {
            throw AttestationError(.malformed, "\(name) is not a byte string of at most 2048 bytes")
        }
        return Data(bytes)
    }

    static func decode(_ text: String?, _ name: String, maximum: Int) throws(AttestationError)
        -> Data?
    {
        guard let text else { return nil }
        guard let bytes = Base64URL.decode(text), bytes.count <= maximum else {
            throw AttestationError(
                .malformed, "\(name) is not base64url of at most \(maximum) bytes")
        }
        return bytes
    }
}

/// A branch of a key's policy, as the client declares it. It is only believed if the digest of the
/// policy confirms it.
enum DeclaredBranch: Hashable, Sendable {
    /// The owner of an approval key signs each use.
    case signed(Signed)
    /// The PIN of an NV index.
    case pin(index: Data, reset: Data, reuse: UInt16)
    /// A type that is not accepted: for example `certify`, a branch without a proof of the user's
    /// presence.
    case other

    struct Signed: Hashable, Sendable {
        /// The approval key, `TPMT_PUBLIC`.
        let key: Data
        let user: UInt32
        let requirement: String
        /// Seconds.
        let reuse: UInt16
        /// The digest of the set of enrolled fingers.
        let set: Data?
        let counter: Counter?
    }

    /// A counter that the broker increases when the set of fingers changes.
    struct Counter: Hashable, Sendable {
        /// `TPMS_NV_PUBLIC`.
        let index: Data
        let value: UInt64
        /// `TPMS_ATTEST` by `NV_Certify` and its signature, if they were sent.
        let certification: Certification?
    }

    struct Certification: Hashable, Sendable {
        let certInfo: Data
        let signature: Data
    }

    init(_ wire: AttestationStatement.Wire.Branch) throws(AttestationError) {
        func required(_ text: String?, _ name: String) throws(AttestationError) -> Data {
            guard let bytes = try TPMStatement.decode(text, name, maximum: 1024) else {
                throw AttestationError(.malformed, "a branch has no \(name)")
            }
            return bytes
        }
        switch wire.type {
        case "signed":
            guard let user = wire.user, let requirement = wire.requirement,
                requirement.utf8.count <= 64
            else {
                throw AttestationError(.malformed, "a branch has no user or no requirement")
            }
            let counter = try wire.counter.map { (counter) throws(AttestationError) in
                let certInfo = try TPMStatement.decode(counter.certInfo, "certInfo", maximum: 1024)
                let signature = try TPMStatement.decode(counter.sig, "sig", maximum: 256)
                guard (certInfo == nil) == (signature == nil) else {
                    throw AttestationError(.malformed, "a counter has only one of certInfo and sig")
                }
                return Counter(
                    index: try required(counter.index, "index"), value: counter.value,
                    certification: certInfo.flatMap { info in
                        signature.map { Certification(certInfo: info, signature: $0) }
                    })
            }
            self = .signed(
                Signed(
                    key: try required(wire.key, "key"), user: user, requirement: requirement,
                    reuse: wire.reuse ?? 0,
                    set: try TPMStatement.decode(wire.set, "set", maximum: 64), counter: counter))
        case "pin":
            self = .pin(
                index: try required(wire.index, "index"), reset: try required(wire.reset, "reset"),
                reuse: wire.reuse ?? 0)
        default: self = .other
        }
    }
}
