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

    /// The signature of `statement` (`CKM_SHA256_RSA_PKCS`): 256 bytes, the same each time. It has been verified.
    ///
    /// - Throws: `malformed` for what is no signature, `unsupported`, `loginNeeded`, `returned`.
    func signature(of statement: Data, with key: RSATokenKey) throws(CryptokiError) -> SecretBytes {
        try checkCancellation()
        try beginSigning(key)
        let function = "C_Sign"
        let buffer = SecretBuffer()
        var input = Array(statement)
        var count = CK_ULONG(buffer.bytes.count)
        let value = try call.answer(function, .person) {
            $0.pointee.C_Sign?(
                handle, &input, CK_ULONG(input.count), buffer.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self),
                &count)
        }
        try check(value, from: function, after: .zero)
        guard count == RSAPublicKey.byteCount,
            key.publicKey.isValid(UnsafeRawBufferPointer(buffer.bytes), for: statement)
        else { throw .malformed(function, "the signature is not the RSA key's") }
        return SecretBytes(count: RSAPublicKey.byteCount) { $0.copyMemory(from: UnsafeRawBufferPointer(buffer.bytes)) }
    }

    private func beginSigning(_ key: RSATokenKey) throws(CryptokiError) {
        let function = "C_SignInit"
        let value = try call.answer(function) {
            var mechanism = CK_MECHANISM(mechanism: Mechanism.sha256RSA.rawValue, pParameter: nil, ulParameterLen: 0)
            return $0.pointee.C_SignInit?(handle, &mechanism, key.handle.rawValue)
        }
        switch value {
        case .mechanismInvalid, .functionNotSupported:
            throw CryptokiError(
                .unsupported, function: function, reason: "the module has no RSA signatures with SHA-256: \(value)")
        default: try check(value, from: function, after: .zero)
        }
    }
}
