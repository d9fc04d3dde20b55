internal import CESAPI
internal import CTSS2

extension ESAPI {
    enum SessionKind {
        case hmac, policy, trial

        fileprivate var code: UInt8 {
            switch self {
            case .hmac: UInt8(TPM2_SE_HMAC)
            case .policy: UInt8(TPM2_SE_POLICY)
            case .trial: UInt8(TPM2_SE_TRIAL)
            }
        }
    }

    /// Starts a session with SHA-256. With a salt key it is salted to that key and encrypts
    /// parameters both ways.
    func startSession(_ kind: SessionKind, saltKey: ESYS_TR? = nil) throws -> ESYS_TR {
        var symmetric = TPMT_SYM_DEF()
        symmetric.algorithm = UInt16(TPM2_ALG_NULL)
        if saltKey != nil {
            symmetric.algorithm = UInt16(TPM2_ALG_AES)
            symmetric.keyBits.aes = 128
            symmetric.mode.aes = UInt16(TPM2_ALG_CFB)
        }
        var session = ESYS_TR()
        try Self.check(
            Esys_StartAuthSession(
                context, saltKey ?? UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), nil, kind.code, &symmetric,
                UInt16(TPM2_ALG_SHA256),
                &session),
            "Esys_StartAuthSession")
        if saltKey != nil {
            let attributes = UInt8(
                TPMA_SESSION_CONTINUESESSION | TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT)
            try Self.check(
                Esys_TRSess_SetAttributes(context, session, attributes, 0xFF),
                "Esys_TRSess_SetAttributes")
        }
        return session
    }

    /// The digest that the TPM itself computes for the policy that `steps` run in a trial session.
    func policyDigest(_ steps: (borrowing ESAPI, ESYS_TR) throws -> Void) throws -> [UInt8] {
        let session = try startSession(.trial)
        defer { try? flush(session) }
        try steps(self, session)
        return try policyDigest(of: session)
    }

    func policyDigest(of session: ESYS_TR) throws -> [UInt8] {
        var digest: UnsafeMutablePointer<TPM2B_DIGEST>?
        try Self.check(
            Esys_PolicyGetDigest(
                context, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &digest),
            "Esys_PolicyGetDigest")
        return try MarshallingUnit.bytes(Self.take(digest, "Esys_PolicyGetDigest"))
    }

    func policyAuthValue(_ session: ESYS_TR) throws {
        try Self.check(
            Esys_PolicyAuthValue(
                context, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE)),
            "Esys_PolicyAuthValue")
    }

    func policyCommandCode(_ session: ESYS_TR, _ code: UInt32) throws {
        try Self.check(
            Esys_PolicyCommandCode(
                context, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                code),
            "Esys_PolicyCommandCode")
    }

    func policyOR(_ session: ESYS_TR, _ branches: [[UInt8]]) throws {
        var list = try MarshallingUnit.read(
            [0, 0, 0, UInt8(branches.count)] + branches.flatMap(MarshallingUnit.sized),
            into: TPML_DIGEST(),
            Tss2_MU_TPML_DIGEST_Unmarshal)
        try Self.check(
            Esys_PolicyOR(
                context, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &list),
            "Esys_PolicyOR")
    }

    /// PolicySigned by a key that was loaded.
    ///
    /// - Parameters:
    ///   - cpHash: The one command for which it is meant; empty for any.
    ///   - signature: `r` and `s` over SHA-256 of expiration 0, cpHash and policyRef. A trial
    ///     session needs none.
    func policySigned(
        _ session: ESYS_TR, by key: ESYS_TR, cpHash: [UInt8] = [], policyRef: [UInt8],
        signature: (r: [UInt8], s: [UInt8]) = ([], [])
    ) throws {
        var nonce = TPM2B_NONCE()
        var cpHash = try MarshallingUnit.digest(cpHash)
        var reference = try MarshallingUnit.digest(policyRef)
        var approval = TPMT_SIGNATURE()
        approval.sigAlg = UInt16(TPM2_ALG_ECDSA)
        approval.signature.ecdsa.hash = UInt16(TPM2_ALG_SHA256)
        approval.signature.ecdsa.signatureR = try MarshallingUnit.number(signature.r)
        approval.signature.ecdsa.signatureS = try MarshallingUnit.number(signature.s)
        try Self.check(
            Esys_PolicySigned(
                context, key, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &nonce,
                &cpHash, &reference, 0, &approval, nil, nil),
            "Esys_PolicySigned")
    }

    /// PolicySecret of the owner, whose authorization value is empty on a fresh TPM.
    func policySecretOfOwner(_ session: ESYS_TR, policyRef: [UInt8]) throws {
        var nonce = TPM2B_NONCE()
        var cpHash = TPM2B_DIGEST()
        var reference = try MarshallingUnit.digest(policyRef)
        try Self.check(
            Esys_PolicySecret(
                context, UInt32(ESYS_TR_RH_OWNER), session, UInt32(ESYS_TR_PASSWORD),
                UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &nonce, &cpHash, &reference, 0, nil, nil),
            "Esys_PolicySecret")
    }
}
