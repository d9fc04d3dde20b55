internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// `secp256r1` as an OBJECT IDENTIFIER in DER (RFC 5480 section 2.1.1.1), for `CKA_EC_PARAMS`.
    private static let secp256r1: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]

    /// Generates a key pair by the template ladder of section 7.2, and checks it as section 1.6 says: not extractable,
    /// `CKA_VALUE` unreadable, the point on the curve. The self-test is ``prove(_:with:)``.
    ///
    /// - Throws: `occupied`, `unsound` (both halves were destroyed), `unsupported`, `returned`.
    func generateKeyPair(_ request: KeyPairRequest) throws(CryptokiError) -> TokenKey {
        try generate(request) { () throws(CryptokiError) in try key(id: request.id) }
    }

    /// The same for an RSA key that decrypts: 2048 bits, the exponent 65537.
    func generateRSAKeyPair(_ request: KeyPairRequest) throws(CryptokiError) -> RSATokenKey {
        try generate(request) { () throws(CryptokiError) in try rsaKey(id: request.id) }
    }

    private func generate<Key: PrivateHalf>(
        _ request: KeyPairRequest, read: () throws(CryptokiError) -> Key
    ) throws(CryptokiError) -> Key {
        try checkCancellation()
        guard !request.alwaysAuthenticates || profile.takesAlwaysAuthenticate else {
            throw CryptokiError(
                .unsupported, reason: "the module makes no key that needs a proof for each use when asked to")
        }
        guard try !isOccupied(id: request.id) else {
            throw CryptokiError(.occupied, reason: "the CKA_ID \(request.id.hexadecimal) is in use on the token")
        }
        try generateHalves(request)
        do throws(CryptokiError) {
            let key = try read()
            try checkProtection(of: key, isGenerated: true)
            guard !request.isPrivate || key.attributes.isPrivate != false,
                !request.alwaysAuthenticates || key.attributes.alwaysAuthenticates == true
            else {
                throw CryptokiError(
                    .unsound, reason: "the token did not give the key the protection that was asked for")
            }
            return key
        } catch {
            // The error that matters is the first one.
            try? destroyKey(id: request.id)
            throw error
        }
    }

    private func generateHalves(_ request: KeyPairRequest) throws(CryptokiError) {
        let function = "C_GenerateKeyPair"
        var value = ReturnValue.functionFailed
        for isExplicit in profile.takesExtractable ? [true, false] : [false] {
            value = try call.answer(function, .person) { list in
                var mechanism = CK_MECHANISM(
                    mechanism: request.use.mechanism.rawValue, pParameter: nil, ulParameterLen: 0)
                var handles: (publicKey: CK_OBJECT_HANDLE, privateKey: CK_OBJECT_HANDLE) = (0, 0)
                return publicTemplate(request).withAttributes { publicTemplate, publicCount in
                    privateTemplate(request, isExplicit: isExplicit).withAttributes { template, count in
                        list.pointee.C_GenerateKeyPair?(
                            handle, &mechanism, publicTemplate, publicCount, template, count, &handles.publicKey,
                            &handles.privateKey)
                    }
                }
            }
            guard value == .attributeTypeInvalid || value == .templateInconsistent else { break }
        }
        switch value {
        case .ok: return
        case .mechanismInvalid, .functionNotSupported:
            throw CryptokiError(
                .unsupported, function: function, reason: "the module generates no \(request.use.kind) keys: \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }

    private func publicTemplate(_ request: KeyPairRequest) -> AttributeTemplate {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.publicKey.rawValue)
        template.set(CKA_KEY_TYPE, request.use.keyType)
        if request.use == .signRSA {
            template.set(CKA_MODULUS_BITS, UInt(RSAPublicKey.bits))
            template.set(CKA_PUBLIC_EXPONENT, RSAPublicKey.exponent)
        } else {
            template.set(CKA_EC_PARAMS, Self.secp256r1)
        }
        template.set(CKA_TOKEN, true)
        template.set(request.use.publicPermission, true)
        template.set(CKA_ID, request.id)
        template.set(CKA_LABEL, request.label.utf8)
        return template
    }

    /// - Parameter isExplicit: whether it says what the key must not do. Some modules refuse such attributes, whatever
    ///   their value, and then must have the right value by themselves, which is checked afterwards.
    private func privateTemplate(_ request: KeyPairRequest, isExplicit: Bool) -> AttributeTemplate {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, ObjectClass.privateKey.rawValue)
        template.set(CKA_KEY_TYPE, request.use.keyType)
        template.set(CKA_TOKEN, true)
        template.set(CKA_PRIVATE, request.isPrivate)
        template.set(CKA_SENSITIVE, true)
        template.set(request.use.permission, true)
        if isExplicit {
            template.set(CKA_EXTRACTABLE, false)
            template.set(request.use.prohibition, false)
        }
        template.set(CKA_ID, request.id)
        template.set(CKA_LABEL, request.label.utf8)
        if request.alwaysAuthenticates { template.set(CKA_ALWAYS_AUTHENTICATE, true) }
        return template
    }

    /// Checks what section 1.6 asks of any key before it is trusted: not extractable and its secrets unreadable. Of a
    /// key that was just generated, where the module reports such things truly, also that it is sensitive, was never
    /// extractable, and was made on the token.
    ///
    /// - Throws: `unsound`.
    func checkProtection(of key: some PrivateHalf, isGenerated: Bool = false) throws(CryptokiError) {
        // What can't be looked at can't be taken out either.
        guard !key.attributes.isHidden else { return }
        guard key.attributes.isExtractable == false else {
            throw CryptokiError(.unsound, reason: "the token lets the key be taken out")
        }
        let value = SecretBuffer()
        for secret in key.secrets {
            guard try attribute(secret, of: key.handle, into: value.bytes) == nil else {
                throw CryptokiError(.unsound, reason: "the token shows the private key")
            }
        }
        guard isGenerated, profile.reportsProtection else { return }
        guard key.attributes.isSensitive == true, key.attributes.wasNeverExtractable != false,
            key.attributes.isLocal != false
        else {
            throw CryptokiError(.unsound, reason: "the token does not say that the key was made in it and stays there")
        }
    }

    /// Proves that the private half belongs to the public half: signs random bytes and verifies with swift-crypto, or
    /// for a key that only derives agrees with a key of our own.
    ///
    /// - Throws: `unsound`.
    func prove(_ key: TokenKey, with proof: LoginProof? = nil) throws(CryptokiError) {
        let isGenuine =
            key.attributes.signs == false
            ? try agrees(key) : try signs(key, proof)
        guard isGenuine else {
            throw CryptokiError(.unsound, reason: "the token's private key does not belong to its public key")
        }
    }

    private func signs(_ key: TokenKey, _ proof: LoginProof?) throws(CryptokiError) -> Bool {
        let digest = MessageDigest(sha256: (0..<32).map { _ in UInt8.random(in: .min ... .max) })
        return key.publicKey.isValid(try sign(digest, with: key, proof: proof), for: digest)
    }

    private func agrees(_ key: TokenKey) throws(CryptokiError) -> Bool {
        let own = P256.KeyAgreement.PrivateKey()
        guard let peer = try? PublicKey(x963Representation: own.publicKey.x963Representation),
            let theirs = try? P256.KeyAgreement.PublicKey(x963Representation: key.publicKey.x963Representation),
            let expected = try? own.sharedSecretFromKeyAgreement(with: theirs)
        else { return false }
        return try sharedSecret(of: key, with: peer) == SecretBytes(expected.withUnsafeBytes { Array($0) })
    }
}
