internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

extension Token {
    /// The same token in the same module, loaded into this process, if key agreement can't reach
    /// the isolated module. nil if it can, or if the options require isolation.
    ///
    /// p11-kit before 0.25 can't pass the parameter of `CKM_ECDH1_DERIVE`. Only the key agreement
    /// of an isolated module is therefore done in this process, with the same deadlines: if it
    /// hangs, only later agreements fail (`unresponsive`). To the card these are two programs: each
    /// ends the session and login of the other, and ``RecoveryPolicy`` and a new proof restore them.
    ///
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `tokenAmbiguous`, `module`, `timedOut`,
    ///   `unresponsive`, `cancelled`.
    func agreementToken() async throws(CryptokiError) -> Token? {
        guard module.isIsolated, module.options.isolation == .automatic,
            module.options.environment.isEmpty
        else {
            return nil
        }
        guard
            try await !withSession({ (session) throws(CryptokiError) in
                try session.supportsKeyAgreement()
            })
        else {
            return nil
        }
        var options = module.options
        options.isolation = .never
        let identity = identity
        let module = try await Module.load(module.path, options: options)
        let tokens = try await module.tokens(options: options) { identity.matches($0) }
        return try identity.only(of: tokens.map { ($0.information, $0) }, in: module)
    }
}

extension Session {
    /// Whether key agreement reaches the module. Tested once with an invalid key handle: p11-kit
    /// checks the mechanism before the module checks the key.
    func supportsKeyAgreement() throws(CryptokiError) -> Bool {
        if let known = call.module.supportsKeyAgreement.withLock({ $0 }) { return known }
        var noPoint = [UInt8](repeating: 0, count: 65)
        let value = try noPoint.withUnsafeMutableBufferPointer { point throws(CryptokiError) in
            try deriveKey(ObjectHandle(rawValue: 0), point, AttributeTemplate()).value
        }
        let isSupported = value != .mechanismInvalid && value != .functionNotSupported
        call.module.supportsKeyAgreement.withLock { $0 = isSupported }
        return isSupported
    }

    /// Computes ECDH with another public key (`CKM_ECDH1_DERIVE`, no KDF): the x coordinate, 32
    /// bytes.
    ///
    /// - Throws: `unsupported` if the module, or p11-kit's protocol in front of an isolated one,
    ///   has no ECDH.
    func sharedSecret(of key: TokenKey, with peer: PublicKey) throws(CryptokiError) -> SecretBytes {
        try checkCancellation()
        let object = try derive(key, peer)
        let secret = Result { () throws(CryptokiError) in
            try SecretBytes(count: 32) { buffer throws(CryptokiError) in
                guard try attribute(CKA_VALUE, of: object, into: buffer) == 32 else {
                    throw .malformed(
                        "C_GetAttributeValue", "a shared secret does not have 32 bytes")
                }
            }
        }
        try destroy(object)
        return try secret.get()
    }

    private func derive(_ key: TokenKey, _ peer: PublicKey) throws(CryptokiError) -> ObjectHandle {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.secretKey.rawValue)
        template.set(CKA_KEY_TYPE, UInt(CKK_GENERIC_SECRET))
        template.set(CKA_TOKEN, false)
        // The default is private, which requires a login.
        if try loggedInRole() == nil { template.set(CKA_PRIVATE, false) }
        template.set(CKA_SENSITIVE, false)
        template.set(CKA_EXTRACTABLE, true)
        template.set(CKA_VALUE_LEN, UInt(32))
        var point = Array(peer.x963Representation)
        let (value, object) = try point.withUnsafeMutableBufferPointer {
            point throws(CryptokiError) in
            try deriveKey(key.handle, point, template)
        }
        // OpenSC takes the permitted uses of a PIV card's key from its certificate.
        if value == .keyTypeInconsistent, profile.family == .opensc {
            throw CryptokiError(
                .unsupported, function: "C_DeriveKey",
                reason:
                    "OpenSC permits no key agreement with this key: its slot has no certificate with the key usage "
                    + "`keyAgreement`",
                recovery:
                    "Import such a certificate for the key (`yubico-piv-tool -a import-certificate`), or use the card's "
                    + "own module.")
        }
        try check(
            value, from: "C_DeriveKey",
            unsupported: call.module.isIsolated
                ? "key agreement that p11-kit can pass to a separate process" : "key agreement")
        return object
    }

    /// `C_DeriveKey` with `CKM_ECDH1_DERIVE` and no KDF.
    func deriveKey(
        _ key: ObjectHandle, _ point: UnsafeMutableBufferPointer<UInt8>,
        _ template: AttributeTemplate
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
}
