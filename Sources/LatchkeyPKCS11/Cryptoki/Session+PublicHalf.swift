internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// The public half of the key with that `CKA_ID`, as far as it can be seen without a login: from the public key
    /// object, or where the token has none, from the key's certificate. nil where there is neither.
    ///
    /// - Throws: `malformed` for what is no point on P-256, `keyAmbiguous`.
    func publicKey(id: Data) throws(CryptokiError) -> PublicKey? {
        if let known = knownKeys[id] { return known.publicKey }
        let halves = try objects(.publicKey, id: id)
        guard halves.count <= 1 else {
            throw CryptokiError(.keyAmbiguous, reason: "the token has \(halves.count) public keys with one CKA_ID")
        }
        for object in try halves + objects(.privateKey, id: id) {
            if let point = try attribute(CKA_EC_POINT, of: object, most: ECPoint.mostBytes), !point.isEmpty {
                return try ECPoint.publicKey(point)
            }
        }
        for certificate in try certificates(id: id) {
            if let key = certificate.publicKey { return key }
        }
        return nil
    }
}
