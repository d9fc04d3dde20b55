internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// ECDSA over a digest that was computed in the host.
    ///
    /// - Parameter proof: shown between `C_SignInit` and `C_Sign` (`CKU_CONTEXT_SPECIFIC`). Give it exactly when
    ///   ``TokenKey/Attributes/alwaysAuthenticates`` is true: a module that wants it and does not get it may log the
    ///   user out.
    /// - Throws: `loginNeeded`, `touchTimedOut`, `returned`.
    func sign(_ digest: MessageDigest, with key: TokenKey, proof: LoginProof? = nil) throws(CryptokiError)
        -> ECDSASignature
    {
        try checkCancellation()
        try beginSigning(key)
        if let proof { try prove(CKU.contextSpecific, with: proof) }
        return try finishSigning(digest)
    }

    private func beginSigning(_ key: TokenKey) throws(CryptokiError) {
        let function = "C_SignInit"
        func begin() throws(CryptokiError) -> ReturnValue {
            try call.answer(function) {
                var mechanism = CK_MECHANISM(mechanism: Mechanism.ecdsa.rawValue, pParameter: nil, ulParameterLen: 0)
                return $0.pointee.C_SignInit?(handle, &mechanism, key.handle.rawValue)
            }
        }
        var value = try begin()
        if value == .operationActive {
            // A signature that was begun and never made, because its proof was wrong, is still there: make it.
            _ = try? finishSigning(MessageDigest(sha256: []))
            value = try begin()
        }
        try check(value, from: function, after: .zero)
    }

    private func finishSigning(_ digest: MessageDigest) throws(CryptokiError) -> ECDSASignature {
        let function = "C_Sign"
        let start = ContinuousClock.now
        return try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 128) { buffer throws(CryptokiError) in
            // A module that writes less than it says must not have us take what was on the stack for a signature.
            buffer.initialize(repeating: 0)
            var input = digest.bytes
            var count = CK_ULONG(buffer.count)
            let value = try call.answer(function, .person) {
                $0.pointee.C_Sign?(handle, &input, CK_ULONG(input.count), buffer.baseAddress, &count)
            }
            try check(value, from: function, after: ContinuousClock.now - start)
            // r and s, padded to the same length (PKCS#11 2.40 mechanisms section 2.3.1).
            guard count == 64, let signature = ECDSASignature(rawRepresentation: Data(buffer.prefix(64))) else {
                throw .malformed(function, "a signature has \(count) bytes")
            }
            return signature
        }
    }

    /// `CKR_USER_NOT_LOGGED_IN` stands for three things: nobody is logged in, the proof for this use is missing, or
    /// nobody touched the token. The last takes its time.
    func check(_ value: ReturnValue, from function: String, after time: Duration) throws(CryptokiError) {
        switch value {
        case .ok: return
        case .userNotLoggedIn where time >= call.deadlines.touch:
            throw CryptokiError(
                .touchTimedOut, function: function, reason: "nobody touched the token in time (\(value))")
        case .userNotLoggedIn:
            throw CryptokiError(
                .loginNeeded, function: function, reason: "the token wants its PIN (again): \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }

    /// ECDH with another party's public key (`CKM_ECDH1_DERIVE`, no KDF): the x coordinate, 32 bytes.
    ///
    /// - Throws: `unsupported` where the module, or p11-kit's protocol in front of an isolated one, has no ECDH.
    func sharedSecret(of key: TokenKey, with peer: PublicKey) throws(CryptokiError) -> SecretBytes {
        try checkCancellation()
        let object = try derive(key, peer)
        let secret = Result { () throws(CryptokiError) in try readSecret(object) }
        try destroy(object)
        return try secret.get()
    }

    private func derive(_ key: TokenKey, _ peer: PublicKey) throws(CryptokiError) -> ObjectHandle {
        let isOpen = try loginState() == .nobody
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.secretKey.rawValue)
        template.set(CKA_KEY_TYPE, UInt(CKK_GENERIC_SECRET))
        template.set(CKA_TOKEN, false)
        // By default it would be private, which nobody who is not logged in may make.
        if isOpen { template.set(CKA_PRIVATE, false) }
        template.set(CKA_SENSITIVE, false)
        template.set(CKA_EXTRACTABLE, true)
        template.set(CKA_VALUE_LEN, UInt(32))
        let function = "C_DeriveKey"
        var point = Array(peer.x963Representation)
        let (value, object) = try point.withUnsafeMutableBufferPointer { point throws(CryptokiError) in
            try deriveKey(key.handle, point, template)
        }
        switch value {
        case .mechanismInvalid, .functionNotSupported:
            throw CryptokiError(
                .unsupported, function: function,
                reason: call.module.isIsolated
                    ? "key agreement does not pass to a module in a process of its own: \(value)"
                    : "the module has no key agreement: \(value)")
        default: try check(value, from: function, after: .zero)
        }
        return object
    }

    /// `C_DeriveKey` with `CKM_ECDH1_DERIVE` and no KDF.
    func deriveKey(
        _ key: ObjectHandle, _ point: UnsafeMutableBufferPointer<UInt8>, _ template: AttributeTemplate
    ) throws(CryptokiError) -> (value: ReturnValue, object: ObjectHandle) {
        var object: CK_OBJECT_HANDLE = 0
        let value = try call.answer("C_DeriveKey", .person) { list in
            var parameters = CK_ECDH1_DERIVE_PARAMS(
                kdf: CKD_NULL, ulSharedDataLen: 0, pSharedData: nil,
                ulPublicDataLen: CK_ULONG(point.count), pPublicData: point.baseAddress)
            return withUnsafeMutablePointer(to: &parameters) { parameters in
                var mechanism = CK_MECHANISM(
                    mechanism: Mechanism.ecdh1Derive.rawValue, pParameter: parameters,
                    ulParameterLen: CK_ULONG(MemoryLayout<CK_ECDH1_DERIVE_PARAMS>.size))
                return template.withAttributes {
                    list.pointee.C_DeriveKey?(handle, &mechanism, key.rawValue, $0, $1, &object)
                }
            }
        }
        return (value, ObjectHandle(rawValue: object))
    }

    private func readSecret(_ object: ObjectHandle) throws(CryptokiError) -> SecretBytes {
        let function = "C_GetAttributeValue"
        return try SecretBytes(count: 32) { buffer throws(CryptokiError) in
            guard try attribute(CKA_VALUE, of: object, into: buffer) == 32 else {
                throw .malformed(function, "a shared secret has not 32 bytes")
            }
        }
    }
}

/// `CK_USER_TYPE`, where it is no ``LoginRole``.
private enum CKU {
    static let contextSpecific: UInt = 2
}
