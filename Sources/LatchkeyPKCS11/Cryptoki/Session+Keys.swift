internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import X509

extension Session {
    /// The key with that `CKA_ID`. Looked for once and then remembered until logout.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed` (its public half is no point on P-256).
    func key(id: Data) throws(CryptokiError) -> TokenKey {
        if let key = knownKeys[id] { return key }
        let key = try readKey(id: id, handles: objects(.privateKey, id: id), name: "the CKA_ID \(id.hexadecimal)")
        knownKeys[id] = key
        return key
    }

    /// The one key that fits an `id` and a label, each where given.
    func key(id: Data?, label: String?) throws(CryptokiError) -> TokenKey {
        let handles = try objects(.privateKey, id: id, label: label)
        let name = [id.map { "the CKA_ID \($0.hexadecimal)" }, label.map { "the label \($0)" }]
            .compactMap(\.self).joined(separator: " and ")
        return try readKey(id: id, handles: handles, name: name.isEmpty ? "no name" : name)
    }

    /// All P-256 keys that can be seen: private ones only after login. What is no sound P-256 key is left out.
    func keys() throws(CryptokiError) -> [TokenKey] {
        var keys: [TokenKey] = []
        for handle in try objects(.privateKey) {
            do throws(CryptokiError) {
                keys.append(try readKey(id: nil, handles: [handle], name: ""))
            } catch {
                guard [.keyAbsent, .malformed].contains(error.kind) else { throw error }
            }
        }
        return keys
    }

    /// Whether any key or certificate has that `CKA_ID`.
    func isOccupied(id: Data) throws(CryptokiError) -> Bool {
        for objectClass in [ObjectClass.privateKey, .publicKey, .certificate]
        where try !objects(objectClass, id: id).isEmpty {
            return true
        }
        return false
    }

    /// Destroys both halves. What is gone already is no error; read ``ModuleProfile/deletion`` for what it is worth.
    func destroyKey(id: Data) throws(CryptokiError) {
        knownKeys[id] = nil
        for objectClass in [ObjectClass.privateKey, .publicKey] {
            for object in try objects(objectClass, id: id) { try destroy(object) }
        }
    }

    private func readKey(id: Data?, handles: [ObjectHandle], name: String) throws(CryptokiError) -> TokenKey {
        guard let handle = handles.first else {
            throw CryptokiError(.keyAbsent, reason: "the token shows no private key with \(name)")
        }
        guard handles.count == 1 else {
            throw CryptokiError(.keyAmbiguous, reason: "the token has \(handles.count) private keys with \(name)")
        }
        let id = if let id { id } else { try identifier(of: handle) }
        guard let publicKey = try publicKey(id: id) else {
            throw CryptokiError(
                .keyAbsent, reason: "the token shows no P-256 public key with the CKA_ID \(id.hexadecimal)")
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
            wasAlwaysSensitive: try flag(CKA_ALWAYS_SENSITIVE, of: privateHalf),
            isLocal: try flag(CKA_LOCAL, of: privateHalf),
            alwaysAuthenticates: try flag(CKA_ALWAYS_AUTHENTICATE, of: privateHalf),
            signs: try flag(CKA_SIGN, of: privateHalf),
            derives: try flag(CKA_DERIVE, of: privateHalf))
    }
}

extension TokenCertificate {
    /// The certified key, where it is one on P-256.
    var publicKey: PublicKey? {
        guard let certificate = try? Certificate(derEncoded: Array(der)),
            let key = P256.Signing.PublicKey(certificate.publicKey)
        else { return nil }
        return try? PublicKey(x963Representation: key.x963Representation)
    }
}

extension Data {
    /// Two lower-case digits for each byte.
    var hexadecimal: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}
