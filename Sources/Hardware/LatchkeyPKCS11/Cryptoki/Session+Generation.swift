internal import CPKCS11
internal import Crypto
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// `secp256r1` as an OBJECT IDENTIFIER in DER (RFC 5480 section 2.1.1.1), for `CKA_EC_PARAMS`.
    static let secp256r1: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]

    /// Generates a key pair and checks it: not extractable, `CKA_VALUE` unreadable, the point on
    /// the curve. The self-test is ``selfTest(_:with:)``. Tries templates in the order of their
    /// strictness. A token may not support `CKA_ALWAYS_AUTHENTICATE`.
    ///
    /// - Parameter acceptsOtherID: Whether the token may choose another `CKA_ID`.
    /// - Throws: `occupied`, `unsound` (both halves were destroyed), `unsupported`, `returned`.
    func generateKeyPair(
        _ request: KeyPairRequest, acceptsOtherID: Bool = false
    ) throws(CryptokiError) -> TokenKey {
        try generate(request, acceptsOtherID) { (id) throws(CryptokiError) in try key(id: id) }
    }

    /// Generates an RSA key pair for signatures, 2048 bits with the exponent 65537, and checks it.
    func generateRSAKeyPair(_ request: KeyPairRequest) throws(CryptokiError) -> RSATokenKey {
        try generate(request, false) { (id) throws(CryptokiError) in try rsaKey(id: id) }
    }

    private func generate<Key: PrivateHalf>(
        _ request: KeyPairRequest, _ acceptsOtherID: Bool,
        read: (Data) throws(CryptokiError) -> Key
    ) throws(CryptokiError) -> Key {
        try checkCancellation()
        guard try !isOccupied(id: request.id) else {
            throw CryptokiError(
                .occupied, reason: "the CKA_ID \(request.id.hexadecimal) is in use on the token")
        }
        let halves = try generateHalves(request)
        let id = try? identifier(of: halves.privateHalf)
        let chosen = id.flatMap { $0.isEmpty ? nil : $0 } ?? request.id
        if chosen != request.id {
            // The halves of another key with the ID must not be read or destroyed in place of these.
            guard acceptsOtherID, try objects(.privateKey, id: chosen).count == 1 else {
                try destroy(halves.privateHalf)
                try destroy(halves.publicHalf)
                throw CryptokiError(
                    .unsound,
                    reason: "the token gave the new key the CKA_ID \(chosen.hexadecimal), "
                        + (acceptsOtherID ? "which another key has" : "which was not requested"))
            }
        }
        return try destroyingOnError(chosen) { () throws(CryptokiError) in
            let key = try readNew(chosen, read)
            try checkProtection(of: key, isGenerated: true)
            guard !request.isPrivate || key.attributes.isPrivate != false else {
                throw CryptokiError(
                    .unsound, reason: "the token did not give the key the requested protection")
            }
            return key
        }
    }

    /// Reads a new key. A token may show objects only after a login, but one that shows the private
    /// half also has to show the public one.
    private func readNew<Key: PrivateHalf>(
        _ id: Data, _ read: (Data) throws(CryptokiError) -> Key
    ) throws(CryptokiError) -> Key {
        do throws(CryptokiError) {
            return try read(id)
        } catch {
            guard error.kind == .keyAbsent, try !objects(.privateKey, id: id).isEmpty else {
                throw error
            }
            throw CryptokiError(
                .publicHalfHidden, function: "C_GetAttributeValue",
                reason: "the token does not show the public half of the new key (CKA_EC_POINT)")
        }
    }

    /// Destroys a new key if `body` throws. The error names a key that stays.
    func destroyingOnError<R>(_ id: Data, _ body: () throws(CryptokiError) -> R)
        throws(CryptokiError) -> R
    {
        do {
            return try body()
        } catch {
            // A module that can't delete keys needs the explanation of ``GenerationAttempt``.
            guard profile.deletesKeys, error.returnValue != .sessionHandleInvalid else {
                throw error
            }
            let isGone = Result { () throws(CryptokiError) in
                // An aborted signature stays active in its session and prevents the deletion.
                try reopen(keepingLogin: true)
                try destroyKey(id: id)
                return try !isOccupied(id: id)
            }
            if case .success(true) = isGone { throw error }
            throw error.leaving(id.hexadecimal)
        }
    }

    /// The function that generates keys.
    static let generation = "C_GenerateKeyPair"

    private func generateHalves(
        _ request: KeyPairRequest
    ) throws(CryptokiError) -> (publicHalf: ObjectHandle, privateHalf: ObjectHandle) {
        let function = Self.generation
        var value = ReturnValue.functionFailed
        var publicHalf: CK_OBJECT_HANDLE = 0
        var privateHalf: CK_OBJECT_HANDLE = 0
        var requests = [request]
        if request.alwaysAuthenticates {
            var lenient = request
            lenient.alwaysAuthenticates = false
            requests.append(lenient)
        }
        let templates = requests.flatMap { request in
            [true, false].map { (request: request, isExplicit: $0) }
        }
        for (request, isExplicit) in templates {
            value = try call.answer(function, .person) { list in
                var mechanism = CK_MECHANISM(
                    mechanism: request.use.mechanism.rawValue, pParameter: nil, ulParameterLen: 0)
                return publicTemplate(request).withAttributes { publicTemplate, publicCount in
                    privateTemplate(request, isExplicit: isExplicit).withAttributes {
                        template, count in
                        list.pointee.C_GenerateKeyPair?(
                            handle, &mechanism, publicTemplate, publicCount, template, count,
                            &publicHalf, &privateHalf)
                    }
                }
            }
            let refusals: [ReturnValue] = [
                .attributeTypeInvalid, .attributeValueInvalid, .attributeReadOnly,
                .templateInconsistent,
            ]
            guard refusals.contains(value) else { break }
        }
        switch value {
        case .ok:
            return (ObjectHandle(rawValue: publicHalf), ObjectHandle(rawValue: privateHalf))
        case .mechanismInvalid, .functionNotSupported:
            throw CryptokiError(
                .unsupported, function: function,
                reason:
                    "the module can't generate \(request.use == .signRSA ? "RSA" : "P-256") keys: \(value)"
            )
        default: throw CryptokiError(value, from: function)
        }
    }

    private func publicTemplate(_ request: KeyPairRequest) -> AttributeTemplate {
        var template = template(request, .publicKey)
        if request.use == .signRSA {
            template.set(CKA_MODULUS_BITS, UInt(RSAPublicKey.bits))
            template.set(CKA_PUBLIC_EXPONENT, RSAPublicKey.exponent)
        } else {
            template.set(CKA_EC_PARAMS, Self.secp256r1)
        }
        template.set(request.use.permissions.publicHalf, true)
        return template
    }

    /// - Parameter isExplicit: Whether the template contains prohibitions. Some modules refuse
    ///   these attributes with any value; their default must then be right, which is checked
    ///   afterwards.
    private func privateTemplate(_ request: KeyPairRequest, isExplicit: Bool) -> AttributeTemplate {
        var template = template(request, .privateKey)
        template.set(CKA_PRIVATE, request.isPrivate)
        template.set(CKA_SENSITIVE, true)
        template.set(request.use.permissions.privateHalf, true)
        if isExplicit {
            template.set(CKA_EXTRACTABLE, false)
            template.set(request.use.permissions.prohibited, false)
        }
        if request.alwaysAuthenticates { template.set(CKA_ALWAYS_AUTHENTICATE, true) }
        return template
    }

    /// The attributes of both halves.
    private func template(_ request: KeyPairRequest, _ objectClass: ObjectClass)
        -> AttributeTemplate
    {
        var template = AttributeTemplate()
        template.set(CKA_CLASS, objectClass.rawValue)
        template.set(CKA_KEY_TYPE, UInt(request.use == .signRSA ? CKK_RSA : CKK_EC))
        template.set(CKA_TOKEN, request.isStored)
        template.set(CKA_ID, request.id)
        template.set(CKA_LABEL, request.label.utf8)
        return template
    }

    /// Checks that a key is not extractable and that its secrets are unreadable. For a new key, if
    /// the module reports these attributes correctly, also checks that it is sensitive, was never
    /// extractable, and was generated on the token.
    ///
    /// - Throws: `unsound`.
    func checkProtection(of key: some PrivateHalf, isGenerated: Bool = false) throws(CryptokiError)
    {
        // A hidden key can't be read.
        guard !key.attributes.isHidden else { return }
        guard key.attributes.isExtractable == false else {
            throw CryptokiError(
                .unsound,
                reason: key.attributes.isExtractable == nil
                    ? "the token does not report whether the key can be extracted (CKA_EXTRACTABLE)"
                    : "the token allows extracting the key")
        }
        for secret in key.secrets {
            // The buffer is cleared in case the token shows the secret.
            _ = try SecretBytes(count: 256) { buffer throws(CryptokiError) in
                guard try attribute(secret, of: key.handle, into: buffer) == nil else {
                    throw CryptokiError(.unsound, reason: "the token shows the private key")
                }
            }
        }
        guard profile.reportsProtection else { return }
        guard key.attributes.isLocal != false || key.attributes.wasNeverExtractable != false else {
            throw CryptokiError(
                .unsound,
                reason:
                    "the key was imported into the token (CKA_LOCAL), so a copy of it may exist",
                recovery: "Use a key that was generated on the token.")
        }
        guard isGenerated else { return }
        guard key.attributes.isSensitive == true, key.attributes.wasNeverExtractable != false,
            key.attributes.isLocal != false
        else {
            throw CryptokiError(
                .unsound,
                reason: "the token does not report that the key was generated in it and stays there"
            )
        }
    }

    /// Checks that the private half belongs to the public half: signs random bytes and verifies the
    /// signature, or for a key that only derives, agrees with an ephemeral key.
    ///
    /// - Throws: `unsound`.
    func selfTest(_ key: TokenKey, with proof: LoginProof? = nil) throws(CryptokiError) {
        let isGenuine =
            key.attributes.signs == false
            ? try agrees(key) : try signs(key, proof)
        guard isGenuine else {
            throw CryptokiError(
                .unsound, reason: "the token's private key does not belong to its public key")
        }
    }

    private func signs(_ key: TokenKey, _ proof: LoginProof?) throws(CryptokiError) -> Bool {
        let digest = MessageDigest(sha256: (0..<32).map { _ in UInt8.random(in: .min ... .max) })
        return key.publicKey.isValid(try sign(digest, with: key, proof: proof), for: digest)
    }

    private func agrees(_ key: TokenKey) throws(CryptokiError) -> Bool {
        let own = P256.KeyAgreement.PrivateKey()
        guard let peer = try? PublicKey(x963Representation: own.publicKey.x963Representation),
            let theirs = try? P256.KeyAgreement.PublicKey(
                x963Representation: key.publicKey.x963Representation),
            let expected = try? own.sharedSecretFromKeyAgreement(with: theirs)
        else { return false }
        return try sharedSecret(of: key, with: peer)
            == SecretBytes(expected.withUnsafeBytes { Array($0) })
    }
}

/// A request for a key pair on a token: on P-256, or RSA with 2048 bits.
struct KeyPairRequest: Hashable, Sendable {
    /// The only permitted use of the key. A key with several uses could confuse their proofs.
    enum Use: Hashable, Sendable {
        case sign, derive, signRSA
    }

    /// `CKA_ID` of both halves: 1 byte or up to 64 bytes, depending on
    /// ``ModuleProfile/usesSlotIDs``.
    var id: Data
    /// `CKA_LABEL` of both halves. Modules with fixed labels ignore it.
    var label: String
    var use: Use
    /// `CKA_PRIVATE`: whether the private half can be used only after a login.
    var isPrivate: Bool
    /// `CKA_ALWAYS_AUTHENTICATE`: whether each use requires a separate proof.
    var alwaysAuthenticates: Bool
    /// `CKA_TOKEN`: otherwise the key ends with the session.
    var isStored = true
}

extension KeyPairRequest.Use {
    /// The mechanism that generates such a key.
    var mechanism: Mechanism { self == .signRSA ? .rsaKeyPairGeneration : .ecKeyPairGeneration }

    /// The permitted uses of the two halves, and the use that the private half must not have
    /// although its type supports it. Decryption with RSA is not prohibited: tpm2-pkcs11 1.9.0
    /// would not create the key, and decryption requires a login like signing.
    var permissions: (publicHalf: UInt, privateHalf: UInt, prohibited: UInt) {
        self == .derive ? (CKA_DERIVE, CKA_DERIVE, CKA_SIGN) : (CKA_VERIFY, CKA_SIGN, CKA_DERIVE)
    }
}
