internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// The key with a `CKA_ID`. Cached until logout.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed` (its public half is not a point on
    ///   P-256).
    func key(id: Data) throws(CryptokiError) -> TokenKey {
        if let key = knownKeys[id] { return key }
        let key = try readKey(
            id: id, handles: objects(.privateKey, id: id), name: "the CKA_ID \(id.hexadecimal)")
        knownKeys[id] = key
        return key
    }

    /// The key with a `CKA_ID` and this public half.
    ///
    /// - Throws: `keyAbsent`, also if another key has the ID.
    func key(id: Data, publicKey: PublicKey) throws(CryptokiError) -> TokenKey {
        let key = try key(id: id)
        guard key.publicKey == publicKey else {
            throw CryptokiError(.keyAbsent, reason: "another key has the stored key's CKA_ID")
        }
        return key
    }

    /// The one key with an ID and a label, each of which may be nil.
    func key(id: Data?, label: String?) throws(CryptokiError) -> TokenKey {
        let handles = try objects(.privateKey, id: id, label: label)
        let name = [id.map { "the CKA_ID \($0.hexadecimal)" }, label.map { "the label \($0)" }]
            .compactMap(\.self).joined(separator: " and ")
        return try readKey(id: id, handles: handles, name: name.isEmpty ? "no name" : name)
    }

    /// The key with a `CKA_ID`, for key agreement. Also finds a private half that the module hides
    /// without a login but would use: its handle is derived from that of the visible public half.
    ///
    /// - Throws: as ``key(id:)``.
    func agreementKey(id: Data) throws(CryptokiError) -> TokenKey {
        do {
            return try key(id: id)
        } catch {
            guard error.kind == .keyAbsent, let distance = profile.hiddenHalfDistance,
                let half = try objects(.publicKey, id: id).first, half.rawValue > distance,
                let publicKey = try publicKey(id: id)
            else { throw error }
            return TokenKey(
                id: id, label: try label(of: half), publicKey: publicKey,
                attributes: TokenKey.Attributes(isHidden: true),
                handle: ObjectHandle(rawValue: half.rawValue - distance))
        }
    }

    /// The public halves with a `CKA_ID` of 1 to 64 bytes, in the token's order. The key is nil for
    /// another type than P-256.
    func publicKeys() throws(CryptokiError) -> [(id: Data, label: String, publicKey: PublicKey?)] {
        var keys: [(id: Data, label: String, publicKey: PublicKey?)] = []
        var ids: Set<Data> = []
        for object in try objects(.publicKey) {
            let id = try identifier(of: object)
            guard (1...64).contains(id.count), ids.insert(id).inserted else { continue }
            do throws(CryptokiError) {
                keys.append((id, try label(of: object), try publicKey(id: id)))
            } catch {
                guard [.keyAmbiguous, .malformed].contains(error.kind) else { throw error }
            }
        }
        return keys
    }

    /// Whether any key or certificate has a `CKA_ID`.
    func isOccupied(id: Data) throws(CryptokiError) -> Bool {
        for objectClass in [ObjectClass.privateKey, .publicKey, .certificate]
        where try !objects(objectClass, id: id).isEmpty {
            return true
        }
        return false
    }

    /// Destroys both halves of a key. A missing half is not an error. ``ModuleProfile/deletesKeys``
    /// says whether it works.
    func destroyKey(id: Data) throws(CryptokiError) {
        knownKeys[id] = nil
        for objectClass in [ObjectClass.privateKey, .publicKey] {
            for object in try objects(objectClass, id: id) { try destroy(object) }
        }
    }

    private func readKey(id: Data?, handles: [ObjectHandle], name: String) throws(CryptokiError)
        -> TokenKey
    {
        guard let handle = handles.first else {
            throw CryptokiError(.keyAbsent, reason: "the token shows no private key with \(name)")
        }
        guard handles.count == 1 else {
            throw CryptokiError(
                .keyAmbiguous, reason: "the token has \(handles.count) private keys with \(name)")
        }
        let id = if let id { id } else { try identifier(of: handle) }
        guard let publicKey = try publicKey(id: id) else {
            try checkKeyType(id: id)
            throw CryptokiError(
                .keyAbsent,
                reason: "the token shows no P-256 public key with the CKA_ID \(id.hexadecimal)")
        }
        return TokenKey(
            id: id, label: try label(of: handle), publicKey: publicKey,
            attributes: try attributes(of: handle), handle: handle)
    }

    func attributes(of privateHalf: ObjectHandle) throws(CryptokiError) -> TokenKey.Attributes {
        TokenKey.Attributes(
            isPrivate: try flag(CKA_PRIVATE, of: privateHalf),
            isSensitive: try flag(CKA_SENSITIVE, of: privateHalf),
            isExtractable: try flag(CKA_EXTRACTABLE, of: privateHalf),
            wasNeverExtractable: try flag(CKA_NEVER_EXTRACTABLE, of: privateHalf),
            isLocal: try flag(CKA_LOCAL, of: privateHalf),
            alwaysAuthenticates: try flag(CKA_ALWAYS_AUTHENTICATE, of: privateHalf),
            signs: try flag(CKA_SIGN, of: privateHalf))
    }
}

extension Data {
    /// Two lower-case hexadecimal digits for each byte.
    var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}

extension Session {
    /// The public half of the key with a `CKA_ID`, from the public key object or else from the
    /// key's certificate; nil if the token has neither. Needs no login.
    ///
    /// - Throws: `malformed` if it is not a point on P-256, `keyAmbiguous`.
    func publicKey(id: Data) throws(CryptokiError) -> PublicKey? {
        if let known = knownKeys[id] { return known.publicKey }
        let half = try keyHalf(.publicKey, id: id)
        for object in try [half].compactMap(\.self) + objects(.privateKey, id: id) {
            if let point = try attribute(CKA_EC_POINT, of: object, most: ECPoint.maximumBytes),
                !point.isEmpty
            {
                // Read the curve only for a point of another length: reading it costs one more call
                // for each key.
                if !ECPoint.lengths.contains(point.count), try isOnOtherCurve(object) { return nil }
                return try ECPoint.publicKey(point)
            }
        }
        for certificate in try certificates(id: id) {
            if let key = certificate.publicKey { return key }
        }
        return nil
    }
}

extension Session {
    /// Throws `otherKeyType` if the key with a `CKA_ID` is an RSA key or on another curve than
    /// P-256. Needs no login.
    func checkKeyType(id: Data) throws(CryptokiError) {
        for object in try objects(.publicKey, id: id) + objects(.privateKey, id: id) {
            guard let name = try otherType(of: object) else { continue }
            throw CryptokiError(
                .otherKeyType, reason: "the key with the CKA_ID \(id.hexadecimal) is \(name)")
        }
    }

    /// The type of a key that Latchkey can't use, with its article; nil for a key on P-256, or of
    /// an unknown type.
    private func otherType(of key: ObjectHandle) throws(CryptokiError) -> String? {
        guard let bytes = try attribute(CKA_KEY_TYPE, of: key, most: MemoryLayout<UInt>.size),
            bytes.count == MemoryLayout<UInt>.size
        else { return nil }
        switch bytes.withUnsafeBytes({ $0.loadUnaligned(as: UInt.self) }) {
        case UInt(CKK_RSA): return "an RSA key"
        case UInt(CKK_EC):
            return try isOnOtherCurve(key) ? "a key on another curve than P-256" : nil
        default: return "a key of another type than P-256"
        }
    }

    private func isOnOtherCurve(_ key: ObjectHandle) throws(CryptokiError) -> Bool {
        let parameters = try attribute(CKA_EC_PARAMS, of: key, most: ECPoint.maximumBytes) ?? []
        return !parameters.isEmpty && parameters != Self.secp256r1
    }
}

/// A private key on a token, of any type.
protocol PrivateHalf {
    var attributes: TokenKey.Attributes { get }
    var handle: ObjectHandle { get }
    /// The attributes (`CK_ATTRIBUTE_TYPE`) that the token must not show.
    var secrets: [UInt] { get }
}

/// A P-256 key pair on a token. The handle is valid only in the session that returned it; the other
/// properties may be kept.
struct TokenKey: Sendable {
    /// `CKA_ID` of both halves.
    let id: Data
    /// `CKA_LABEL` of the private half.
    let label: String
    let publicKey: PublicKey
    let attributes: Attributes
    let handle: ObjectHandle

    /// The maximum length of a `CKA_ID` in bytes.
    static let maximumIDBytes = 256

    /// The attributes that the token reports for the private half. An attribute that it does not
    /// report is nil.
    struct Attributes: Hashable, Sendable {
        /// `CKA_PRIVATE`: whether it is visible and usable only after a login.
        var isPrivate: Bool?
        var isSensitive: Bool?
        var isExtractable: Bool?
        var wasNeverExtractable: Bool?
        /// `CKA_LOCAL`: whether it was generated on the token.
        var isLocal: Bool?
        /// `CKA_ALWAYS_AUTHENTICATE`: whether each use requires a separate proof.
        var alwaysAuthenticates: Bool?
        var signs: Bool?
        /// Whether the module hides the private half without a login.
        var isHidden = false
    }

    /// Whether the token requires a proof between the start of a use and its end.
    var wantsProofAtUse: Bool { attributes.alwaysAuthenticates == true }
}

extension TokenKey: PrivateHalf {
    var secrets: [UInt] { [CKA_VALUE] }
}

/// `CKA_EC_POINT` of a P-256 key.
enum ECPoint {
    /// More than a valid length, so that a longer value is detected.
    static let maximumBytes = 512
    /// The lengths of a bare point on P-256, and of one in an OCTET STRING.
    static let lengths: Set<Int> = [65, 67]

    /// The standard requires an OCTET STRING in DER (67 bytes, `04 41 04 …`; PKCS#11 2.40
    /// mechanisms section 2.3.3); some modules return the bare point (65 bytes, `04 …`). Refuses
    /// anything else: some modules have returned other memory here.
    static func publicKey(_ value: [UInt8]) throws(CryptokiError) -> PublicKey {
        let point: ArraySlice<UInt8>
        switch value.count {
        case 67 where value.starts(with: [0x04, 0x41, 0x04]): point = value[2...]
        case 65 where value[0] == 0x04: point = value[...]
        default:
            throw .malformed(
                "C_GetAttributeValue",
                "CKA_EC_POINT has \(value.count) bytes and is not a point on P-256")
        }
        do throws(KeystoreError) {
            return try PublicKey(x963Representation: Data(point))
        } catch {
            throw .malformed("C_GetAttributeValue", "CKA_EC_POINT is not on P-256")
        }
    }
}
