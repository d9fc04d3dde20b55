internal import CPKCS11
internal import Crypto
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
            // r and s, padded to the same length (PKCS#11 2.40 mechanisms section 2.3.1). Some
            // modules encode them as X.509 does. The signature is verified in each case.
            let bytes = Data(buffer.prefix(Int(clamping: count)))
            guard count <= buffer.count,
                let signature = ECDSASignature(rawRepresentation: bytes)
                    ?? (try? P256.Signing.ECDSASignature(derRepresentation: bytes)).flatMap({
                        ECDSASignature(rawRepresentation: $0.rawRepresentation)
                    })
            else {
                throw .malformed("C_Sign", "a signature has \(count) bytes")
            }
            return signature
        }
    }

    /// Signs with any mechanism: `C_SignInit`, `C_Login` if there is a proof, and `C_Sign`.
    ///
    /// A key may require a proof for each use and not report it (`CKA_ALWAYS_AUTHENTICATE`). Then a
    /// repeated login does not suffice, and the proof that the token has just accepted is sent again
    /// for the use.
    ///
    /// - Returns: The length of the signature as the module reports it.
    /// - Throws: `unsupported` if the module does not have the mechanism.
    func sign(
        _ input: [UInt8], _ mechanism: Mechanism, _ key: ObjectHandle, _ proof: LoginProof?,
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(CryptokiError) -> CK_ULONG {
        do throws(CryptokiError) {
            return try signOnce(input, mechanism, key, proof, into: buffer)
        } catch {
            guard error.kind == .loginNeeded, proof == nil, isRepeated, hasRepeatableLogin,
                let checkedProof
            else { throw error }
            let refused = error
            do throws(CryptokiError) {
                return try signOnce(input, mechanism, key, checkedProof, into: buffer)
            } catch {
                // The module did not end the operation that it refused.
                throw error.returnValue == .operationActive ? refused : error
            }
        }
    }

    private func signOnce(
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
    /// Sends the proof for one use.
    ///
    /// A module that answers that the user is logged in already did not check the proof, and may
    /// sign all the same. That is accepted only if the token has checked this proof in this attempt.
    private func sendContextProof(_ proof: LoginProof) throws(CryptokiError) {
        do throws(CryptokiError) {
            try sendProof(UInt(CKU_CONTEXT_SPECIFIC), proof)
        } catch {
            switch error.returnValue {
            case .userAlreadyLoggedIn where checkedProof == proof: return
            case .userAlreadyLoggedIn, .userTypeInvalid, .functionNotSupported:
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
