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
        let key = try key(id: id, label: nil)
        knownKeys[id] = key
        return key
    }

    /// The key with a `CKA_ID` and this public half. Other keys may have the same ID. Cached until
    /// logout.
    ///
    /// - Throws: `keyAbsent`; `keyReplaced` if only other keys have the ID; `keyAmbiguous` if
    ///   nothing tells which private half belongs to the public half.
    func key(id: Data, publicKey: PublicKey) throws(CryptokiError) -> TokenKey {
        if let key = knownKeys[id], key.publicKey == publicKey { return key }
        let handles = try objects(.privateKey, id: id)
        guard !handles.isEmpty else { throw .keyAbsent("the CKA_ID \(id.hexadecimal)") }
        let halves = try publicHalves(id: id)
        guard let half = halves.first(where: { $0.publicKey == publicKey }) else {
            throw CryptokiError(
                halves.isEmpty ? .keyAbsent : .keyReplaced,
                reason: "another key has the stored key's CKA_ID")
        }
        let key = try readKey(id: id, try privateHalf(of: half, among: handles), half.publicKey)
        knownKeys[id] = key
        return key
    }

    /// The one key with an ID and a label, each of which may be nil.
    func key(id: Data?, label: String?) throws(CryptokiError) -> TokenKey {
        var handles = try objects(.privateKey, id: id, label: label)
        let text = [id.map { "the CKA_ID \($0.hexadecimal)" }, label.map { "the label \($0)" }]
            .compactMap(\.self).joined(separator: " and ")
        let name = text.isEmpty ? "no name" : text
        // A key of another type may have the ID of this one.
        if label != nil || handles.count > 1 { handles = try usable(handles, name) }
        guard let handle = handles.first else { throw .keyAbsent(name) }
        guard handles.count == 1 else {
            throw CryptokiError(
                .keyAmbiguous, reason: "the token has \(handles.count) private keys with \(name)")
        }
        let id = if let id { id } else { try identifier(of: handle) }
        let own = try self.label(of: handle)
        guard let publicKey = try publicKey(id: id, label: own) else {
            try checkKeyType(id: id)
            throw CryptokiError(
                .keyAbsent,
                reason: "the token shows no P-256 public key with the CKA_ID \(id.hexadecimal)")
        }
        return try readKey(id: id, handle, publicKey)
    }

    /// The private half that belongs to a public half with the same ID.
    private func privateHalf(
        of half: PublicHalf, among handles: [ObjectHandle]
    ) throws(CryptokiError) -> ObjectHandle {
        if let only = handles.first, handles.count == 1 { return only }
        let handles = try usable(handles, "the CKA_ID of this key")
        var named: [ObjectHandle] = []
        for handle in handles {
            // Some modules show the point of a private half too.
            if try point(of: handle) == half.publicKey { return handle }
            if try label(of: handle) == half.label { named.append(handle) }
        }
        guard let only = named.first, named.count == 1 else {
            throw CryptokiError(
                .keyAmbiguous,
                reason: "the token has \(handles.count) private keys with one CKA_ID and one label")
        }
        return only
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

    /// All keys that the token shows now, by their public halves, in the token's order; then the
    /// private halves without a public one.
    func visibleKeys() throws(CryptokiError) -> [VisibleKey] {
        var keys: [VisibleKey] = []
        for objectClass in [ObjectClass.publicKey, .privateKey] {
            for object in try objects(objectClass) {
                let (id, label) = (try identifier(of: object), try self.label(of: object))
                if objectClass == .privateKey, keys.contains(where: { $0.id == id }) { continue }
                var key = VisibleKey(id: id, label: label, publicKey: nil, problem: nil)
                do throws(CryptokiError) {
                    key.publicKey = try point(of: object)
                    if key.publicKey == nil, objectClass == .privateKey {
                        key.publicKey = try publicKey(id: id)
                    }
                    if key.publicKey == nil {
                        key.problem =
                            try otherType(of: object).map { "it is \($0)" }
                            ?? "the token does not show its public half"
                    } else {
                        try checkOrigin(id: id)
                    }
                } catch {
                    guard [.malformed, .keyAmbiguous, .unsound].contains(error.kind) else {
                        throw error
                    }
                    key.problem = error.reason
                }
                if !(1...64).contains(id.count) {
                    key.problem = "its CKA_ID has \(id.count) bytes, not 1 to 64"
                }
                keys.append(key)
            }
        }
        for index in keys.indices where keys[index].problem == nil {
            let same = keys.count { $0.id == keys[index].id && $0.label == keys[index].label }
            if same > 1 { keys[index].problem = "\(same) keys have its CKA_ID and its label" }
            keys[index].sharesID = keys.count { $0.id == keys[index].id } > 1
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

    /// Destroys both halves of a key, and no other key with the same ID. Halves that the token does
    /// not show are not an error.
    func destroyKey(id: Data, withHash publicKeyHash: Data) throws(CryptokiError) {
        let halves = try publicHalves(id: id)
        let half = halves.first { $0.publicKey.fingerprint == publicKeyHash }
        guard halves.isEmpty || half != nil else { return }
        let handles = try objects(.privateKey, id: id)
        guard let half, halves.count > 1 || handles.count > 1 else {
            return try destroyKey(id: id)
        }
        knownKeys[id] = nil
        if !handles.isEmpty { try destroy(try privateHalf(of: half, among: handles)) }
        if let object = half.object { try destroy(object) }
    }

    private func readKey(
        id: Data, _ handle: ObjectHandle, _ publicKey: PublicKey
    ) throws(CryptokiError) -> TokenKey {
        TokenKey(
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
            alwaysAuthenticates: try optionalFlag(CKA_ALWAYS_AUTHENTICATE, of: privateHalf),
            signs: try flag(CKA_SIGN, of: privateHalf))
    }
}

extension Data {
    /// Two lower-case hexadecimal digits for each byte.
    var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}

extension Session {
    /// The public half of the key with a `CKA_ID`, from the public key object or else from the
    /// key's certificate; nil if the token shows neither. Needs no login, but some tokens show it
    /// only after one.
    ///
    /// - Parameters:
    ///   - label: The key's label, which chooses among several keys with the ID.
    ///   - hash: The hash of the expected public half, which chooses before the label.
    /// - Throws: `malformed` if it is not a point on P-256; `keyAmbiguous` if several keys have the
    ///   ID, and neither label nor hash chooses one.
    func publicKey(
        id: Data, label: String? = nil, hash: Data? = nil
    ) throws(CryptokiError) -> PublicKey? {
        if let known = knownKeys[id]?.publicKey, hash == nil || known.fingerprint == hash {
            return known
        }
        let halves = try publicHalves(id: id)
        if let hash {
            return (halves.first { $0.publicKey.fingerprint == hash } ?? halves.first)?.publicKey
        }
        let named = halves.count > 1 ? halves.filter { $0.label == label } : halves
        guard halves.isEmpty || named.count == 1 else {
            throw CryptokiError(
                .keyAmbiguous, reason: "the token has \(halves.count) public keys with one CKA_ID")
        }
        return named.first?.publicKey
    }

    /// The public halves on P-256 that the token shows for a `CKA_ID`: of public key objects, else
    /// of private halves that show their point, else of certificates.
    ///
    /// - Throws: `malformed` if none is on P-256 and one is malformed.
    private func publicHalves(id: Data) throws(CryptokiError) -> [PublicHalf] {
        var failure: CryptokiError?
        for objectClass in [ObjectClass.publicKey, .privateKey] {
            var halves: [PublicHalf] = []
            let found = try objects(objectClass, id: id)
            for object in found {
                do throws(CryptokiError) {
                    guard let key = try point(of: object) else { continue }
                    halves.append(
                        PublicHalf(
                            publicKey: key, label: try label(of: object),
                            object: objectClass == .publicKey ? object : nil))
                } catch {
                    guard error.kind == .malformed else { throw error }
                    failure = failure ?? error
                }
            }
            if !halves.isEmpty { return halves }
        }
        if let failure { throw failure }
        // A key can have several certificates.
        let keys = try certificates(id: id).compactMap(\.publicKey)
        return keys.first.map { [PublicHalf(publicKey: $0, label: nil, object: nil)] } ?? []
    }

    /// The point that a half of a key shows; nil if it shows none, or is on another curve.
    private func point(of object: ObjectHandle) throws(CryptokiError) -> PublicKey? {
        guard let point = try attribute(CKA_EC_POINT, of: object, most: ECPoint.maximumBytes),
            !point.isEmpty
        else { return nil }
        do throws(CryptokiError) {
            return try ECPoint.publicKey(point)
        } catch {
            // Only now, because reading the curve costs one more call for each key.
            guard try isOnOtherCurve(object) else { throw error }
            return nil
        }
    }
}

/// The public half of a key with a certain `CKA_ID`.
private struct PublicHalf {
    let publicKey: PublicKey
    /// nil if it was read from a certificate.
    let label: String?
    /// nil if it was not read from a public key object.
    let object: ObjectHandle?
}

/// A key that a token shows, of any program and type.
struct VisibleKey: Sendable {
    let id: Data
    let label: String
    /// nil for a key of another type than P-256.
    var publicKey: PublicKey?
    /// Why it can't be used, as a clause.
    var problem: String?
    /// Whether another key has its ID.
    var sharesID = false
}

extension CryptokiError {
    fileprivate static func keyAbsent(_ name: String) -> CryptokiError {
        CryptokiError(.keyAbsent, reason: "the token shows no private key with \(name)")
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

    /// The keys that are not of another type than P-256.
    ///
    /// - Throws: `otherKeyType` if all are.
    private func usable(
        _ keys: [ObjectHandle], _ name: String
    ) throws(CryptokiError) -> [ObjectHandle] {
        var (usable, type): ([ObjectHandle], String?) = ([], nil)
        for key in keys {
            if let other = try otherType(of: key) { type = other } else { usable.append(key) }
        }
        if let type, usable.isEmpty {
            throw CryptokiError(.otherKeyType, reason: "the key with \(name) is \(type)")
        }
        return usable
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
