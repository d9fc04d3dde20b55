internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// The public half of the RSA key with that `CKA_ID`, as far as it can be seen without a login; nil where there is
    /// none.
    ///
    /// - Throws: `malformed`, also for a key of another type; `keyAmbiguous`.
    func rsaPublicKey(id: Data) throws(CryptokiError) -> RSAPublicKey? {
        let halves = try objects(.publicKey, id: id)
        guard halves.count <= 1 else {
            throw CryptokiError(.keyAmbiguous, reason: "the token has \(halves.count) public keys with one CKA_ID")
        }
        guard let half = halves.first else { return nil }
        let most = RSAPublicKey.byteCount * 2
        return try RSAPublicKey(
            modulus: attribute(CKA_MODULUS, of: half, most: most) ?? [],
            exponent: attribute(CKA_PUBLIC_EXPONENT, of: half, most: most) ?? [])
    }

    /// The RSA key with that `CKA_ID`.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed`.
    func rsaKey(id: Data) throws(CryptokiError) -> RSATokenKey {
        let handles = try objects(.privateKey, id: id)
        guard handles.count <= 1 else {
            throw CryptokiError(.keyAmbiguous, reason: "the token has \(handles.count) private keys with one CKA_ID")
        }
        guard let handle = handles.first, let publicKey = try rsaPublicKey(id: id) else {
            throw CryptokiError(.keyAbsent, reason: "the token shows no RSA key with the CKA_ID \(id.hexadecimal)")
        }
        return RSATokenKey(publicKey: publicKey, attributes: try attributes(of: handle), handle: handle)
    }

    /// Decrypts what ``RSAPublicKey/encrypt(_:)`` made of 32 bytes.
    ///
    /// - Throws: `malformed` for another length of what was encrypted, `unsupported`, `loginNeeded`, `returned`.
    func decrypt(_ ciphertext: Data, with key: RSATokenKey) throws(CryptokiError) -> SecretBytes {
        try checkCancellation()
        try beginDecrypting(key)
        let function = "C_Decrypt"
        let plain = SecretBuffer()
        var input = Array(ciphertext)
        var count = CK_ULONG(plain.bytes.count)
        let value = try call.answer(function, .person) {
            $0.pointee.C_Decrypt?(
                handle, &input, CK_ULONG(input.count), plain.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self),
                &count)
        }
        try check(value, from: function, after: .zero)
        guard count == 32 else { throw .malformed(function, "a decrypted secret has not 32 bytes") }
        return SecretBytes(count: 32) { $0.copyBytes(from: plain.bytes[..<32]) }
    }

    private func beginDecrypting(_ key: RSATokenKey) throws(CryptokiError) {
        let function = "C_DecryptInit"
        let value = try call.answer(function) { list in
            var parameters = CK_RSA_PKCS_OAEP_PARAMS(
                hashAlg: CK_MECHANISM_TYPE(CKM_SHA256), mgf: CK_RSA_PKCS_MGF_TYPE(CKG_MGF1_SHA256),
                source: CK_RSA_PKCS_OAEP_SOURCE_TYPE(CKZ_DATA_SPECIFIED), pSourceData: nil, ulSourceDataLen: 0)
            return withUnsafeMutablePointer(to: &parameters) { parameters in
                var mechanism = CK_MECHANISM(
                    mechanism: Mechanism.rsaOAEP.rawValue, pParameter: parameters,
                    ulParameterLen: CK_ULONG(MemoryLayout<CK_RSA_PKCS_OAEP_PARAMS>.size))
                return list.pointee.C_DecryptInit?(handle, &mechanism, key.handle.rawValue)
            }
        }
        switch value {
        case .mechanismInvalid, .mechanismParamInvalid, .functionNotSupported:
            throw CryptokiError(
                .unsupported, function: function, reason: "the module has no RSA-OAEP with SHA-256: \(value)")
        default: try check(value, from: function, after: .zero)
        }
    }
}
