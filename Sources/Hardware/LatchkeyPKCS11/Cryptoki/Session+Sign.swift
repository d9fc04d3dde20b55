internal import CPKCS11
internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// Signs a digest with ECDSA.
    ///
    /// - Parameter proof: Sent between `C_SignInit` and `C_Sign` (`CKU_CONTEXT_SPECIFIC`). Pass it
    ///   if and only if ``TokenKey/wantsProofAtUse`` is true: a module that requires it and does
    ///   not get it may log the user out.
    /// - Throws: `loginNeeded`, `touchTimedOut`, `returned`.
    func sign(_ digest: MessageDigest, with key: TokenKey, proof: LoginProof? = nil)
        throws(CryptokiError)
        -> ECDSASignature
    {
        try withUnsafeTemporaryAllocation(byteCount: 128, alignment: 1) {
            buffer throws(CryptokiError) in
            // If a module writes less than it reports, the rest must not be old bytes of the stack.
            buffer.initializeMemory(as: UInt8.self, repeating: 0)
            let count = try sign(digest.bytes, .ecdsa, key.handle, proof, into: buffer)
            // r and s, padded to the same length (PKCS#11 2.40 mechanisms section 2.3.1).
            guard count == 64,
                let signature = ECDSASignature(rawRepresentation: Data(buffer.prefix(64)))
            else {
                throw .malformed("C_Sign", "a signature has \(count) bytes")
            }
            return signature
        }
    }

    /// Signs with any mechanism: `C_SignInit`, `C_Login` if there is a proof, and `C_Sign`.
    ///
    /// - Returns: The length of the signature as the module reports it.
    /// - Throws: `unsupported` if the module does not have the mechanism.
    func sign(
        _ input: [UInt8], _ mechanism: Mechanism, _ key: ObjectHandle, _ proof: LoginProof?,
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(CryptokiError) -> CK_ULONG {
        try checkCancellation()
        let value = try call.answer("C_SignInit") {
            var mechanism = CK_MECHANISM(
                mechanism: mechanism.rawValue, pParameter: nil, ulParameterLen: 0)
            return $0.pointee.C_SignInit?(handle, &mechanism, key.rawValue)
        }
        try check(
            value, from: "C_SignInit",
            unsupported: mechanism == .sha256RSA ? "RSA signatures with SHA-256" : nil)
        if let proof { try sendContextProof(proof) }
        let start = ContinuousClock.now
        var input = input
        var count = CK_ULONG(buffer.count)
        let signed = try call.answer("C_Sign", .person) {
            $0.pointee.C_Sign?(
                handle, &input, CK_ULONG(input.count),
                buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), &count)
        }
        try check(signed, from: "C_Sign", after: ContinuousClock.now - start)
        return count
    }
}

extension Session {
    /// Sends the proof for one use. A module may answer that the user is logged in already: the
    /// signature then shows whether the use was permitted.
    private func sendContextProof(_ proof: LoginProof) throws(CryptokiError) {
        do throws(CryptokiError) {
            try sendProof(UInt(CKU_CONTEXT_SPECIFIC), proof)
        } catch {
            switch error.returnValue {
            case .userAlreadyLoggedIn: return
            case .userTypeInvalid, .functionNotSupported:
                throw CryptokiError(
                    .noContextLogin, function: error.function,
                    reason:
                        "the module can't check a PIN for a single use of a key: \(error.reason)")
            default: throw error
            }
        }
    }
}

/// `CK_MECHANISM_TYPE`.
struct Mechanism: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt

    static let rsaKeyPairGeneration = Mechanism(rawValue: 0x0)
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    static let sha256RSA = Mechanism(rawValue: 0x40)
    static let ecKeyPairGeneration = Mechanism(rawValue: 0x1040)
    static let ecdsa = Mechanism(rawValue: 0x1041)
    static let ecdh1Derive = Mechanism(rawValue: 0x1050)
}

/// The proof for a login.
enum LoginProof: Sendable {
    case pin(PIN)
    /// A management key, SO PIN or PUK, as the bytes that the module accepts (ykcs11: 48
    /// hexadecimal digits).
    case secret(SecretBytes)
    /// No bytes: the token itself prompts for a PIN or fingerprint (`C_Login` with a null PIN).
    case protectedPath

    /// Whether the user gives the proof at the token, which takes time.
    var isVerifiedByToken: Bool { if case .protectedPath = self { true } else { false } }

    /// Passes the bytes in Cryptoki's type; `body` must not write to them. Null for
    /// ``protectedPath``.
    func withBytes<R, E: Error>(_ body: (UnsafeMutablePointer<UInt8>?, UInt) throws(E) -> R)
        throws(E) -> R
    {
        func lend(_ bytes: UnsafeRawBufferPointer) throws(E) -> R {
            let pointer = bytes.baseAddress.map {
                UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: UInt8.self)
            }
            return try body(pointer, UInt(bytes.count))
        }
        switch self {
        case .pin(let pin): return try pin.withUnsafeBytes(lend)
        case .secret(let secret): return try secret.withUnsafeBytes(lend)
        case .protectedPath: return try body(nil, 0)
        }
    }
}

extension Session {
    /// Interprets the answer to a use of a private key.
    ///
    /// `CKR_USER_NOT_LOGGED_IN` has three meanings: there is no login, the proof for this use is
    /// missing, or the user did not touch the token. Only the last one takes long.
    /// `CKR_DEVICE_ERROR` (ykcs11) and `CKR_GENERAL_ERROR` (OpenSC) after that time are the answers
    /// to status word 6600 of other firmware, which means the same; or the token was removed, which
    /// ``Connection`` finds out.
    ///
    /// - Parameter feature: The feature that a module without the mechanism lacks, for
    ///   `unsupported`.
    func check(
        _ value: ReturnValue, from function: String, after time: Duration = .zero,
        unsupported feature: String? = nil
    ) throws(CryptokiError) {
        if time >= call.deadlines.touch,
            [.userNotLoggedIn, .deviceError, .generalError].contains(value)
        {
            throw CryptokiError(
                .touchTimedOut, function: function,
                reason: "the user did not touch the token in time (\(value))")
        }
        switch value {
        case .ok: return
        case .mechanismInvalid, .functionNotSupported:
            guard let feature else { throw CryptokiError(value, from: function) }
            throw CryptokiError(
                .unsupported, function: function, reason: "the module has no \(feature): \(value)")
        case .userNotLoggedIn:
            throw CryptokiError(
                .loginNeeded, function: function,
                reason: "the token requires its PIN again: \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }
}

extension Session {
    /// The public half of the RSA key with a `CKA_ID`; nil if the token has none. Needs no login.
    ///
    /// - Throws: `malformed`, also for a key of another type; `keyAmbiguous`.
    func rsaPublicKey(id: Data) throws(CryptokiError) -> RSAPublicKey? {
        guard let half = try keyHalf(.publicKey, id: id) else { return nil }
        let most = RSAPublicKey.byteCount * 2
        return try RSAPublicKey(
            modulus: attribute(CKA_MODULUS, of: half, most: most) ?? [],
            exponent: attribute(CKA_PUBLIC_EXPONENT, of: half, most: most) ?? [])
    }

    /// The RSA key with a `CKA_ID`.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed`.
    func rsaKey(id: Data) throws(CryptokiError) -> RSATokenKey {
        guard let handle = try keyHalf(.privateKey, id: id),
            let publicKey = try rsaPublicKey(id: id)
        else {
            throw CryptokiError(
                .keyAbsent, reason: "the token shows no RSA key with the CKA_ID \(id.hexadecimal)")
        }
        return RSATokenKey(
            publicKey: publicKey, attributes: try attributes(of: handle), handle: handle)
    }

    /// Signs `statement` (`CKM_SHA256_RSA_PKCS`) and verifies the signature: 256 bytes, the same
    /// each time.
    ///
    /// - Throws: `malformed` if the signature is not valid, `unsupported`, `loginNeeded`,
    ///   `returned`.
    func signature(of statement: Data, with key: RSATokenKey) throws(CryptokiError) -> SecretBytes {
        try SecretBytes(count: RSAPublicKey.byteCount) { buffer throws(CryptokiError) in
            let count = try sign(Array(statement), .sha256RSA, key.handle, nil, into: buffer)
            guard count == buffer.count,
                key.publicKey.isValid(UnsafeRawBufferPointer(buffer), for: statement)
            else {
                throw .malformed("C_Sign", "the signature is not the RSA key's")
            }
        }
    }
}

/// An RSA key pair on a token. The handle is valid only in the session that returned it.
struct RSATokenKey: PrivateHalf, Sendable {
    let publicKey: RSAPublicKey
    let attributes: TokenKey.Attributes
    let handle: ObjectHandle

    var secrets: [UInt] { [CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2] }
}

/// The public half of an RSA key with 2048 bits and the exponent 65537.
struct RSAPublicKey: Hashable, Sendable {
    /// The length of the modulus.
    static let bits = 2048
    /// The length of a modulus and of a signature in bytes.
    static let byteCount = bits / 8
    /// `CKA_PUBLIC_EXPONENT`, big-endian.
    static let exponent: [UInt8] = [0x01, 0x00, 0x01]

    /// Big-endian, 256 bytes.
    let modulus: Data

    /// Checks the numbers of a token, big-endian; leading zeros are ignored.
    ///
    /// - Throws: `malformed` for another length or exponent, or an impossible modulus.
    init(modulus: [UInt8], exponent: [UInt8]) throws(CryptokiError) {
        let modulus = Data(modulus.drop { $0 == 0 })
        guard exponent.drop(while: { $0 == 0 }).elementsEqual(Self.exponent),
            modulus.count == Self.byteCount,
            modulus[modulus.startIndex] >= 0x80, modulus[modulus.endIndex - 1] & 1 == 1
        else {
            throw .malformed(
                "C_GetAttributeValue",
                "an RSA key does not have \(Self.bits) bits and the exponent 65537")
        }
        self.modulus = modulus
    }

    /// SHA-256 of the modulus, 32 bytes.
    var fingerprint: Data { Data(SHA256.hash(data: modulus)) }

    /// Whether `signature`, 256 bytes, is valid for `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC
    /// 8017 section 8.2).
    func isValid(_ signature: UnsafeRawBufferPointer, for message: Data) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: Self.exponent) else {
            return false
        }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: Data(signature)),
            for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
