internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// Signs a digest with ECDSA.
    ///
    /// - Parameter proof: Sent between `C_SignInit` and `C_Sign` (`CKU_CONTEXT_SPECIFIC`). Pass it if and only if
    ///   ``TokenKey/wantsProofAtUse`` is true: a module that requires it and does not get it may log the user out.
    /// - Throws: `loginNeeded`, `touchTimedOut`, `returned`.
    func sign(_ digest: MessageDigest, with key: TokenKey, proof: LoginProof? = nil) throws(CryptokiError)
        -> ECDSASignature
    {
        try checkCancellation()
        try beginSigning(key)
        if let proof { try sendProof(CKU.contextSpecific, proof) }
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
            // A signature whose proof was wrong is still in progress: finish it.
            _ = try? finishSigning(MessageDigest(sha256: []))
            value = try begin()
        }
        try check(value, from: function, after: .zero)
    }

    private func finishSigning(_ digest: MessageDigest) throws(CryptokiError) -> ECDSASignature {
        let function = "C_Sign"
        let start = ContinuousClock.now
        return try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 128) { buffer throws(CryptokiError) in
            // If a module writes less than it reports, the rest must not be old bytes of the stack.
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

    /// `CKR_USER_NOT_LOGGED_IN` has three meanings: there is no login, the proof for this use is missing, or the user did not
    /// touch the token. Only the last one takes long.
    func check(_ value: ReturnValue, from function: String, after time: Duration) throws(CryptokiError) {
        switch value {
        case .ok: return
        case .userNotLoggedIn where time >= call.deadlines.touch:
            throw CryptokiError(
                .touchTimedOut, function: function, reason: "the user did not touch the token in time (\(value))")
        case .userNotLoggedIn:
            throw CryptokiError(
                .loginNeeded, function: function, reason: "the token requires its PIN again: \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }
}

/// `CK_USER_TYPE` that is not a ``LoginRole``.
private enum CKU {
    static let contextSpecific: UInt = 2
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
