internal import CESAPI
internal import CTSS2

/// Certify, MakeCredential and ActivateCredential.
extension ESAPI {
    /// Certify with the empty password of both keys and the signer's scheme.
    ///
    /// - Returns: `TPMS_ATTEST` and `TPMT_SIGNATURE`.
    func certify(
        _ object: ESYS_TR, by signer: ESYS_TR, challenge: [UInt8]
    ) throws -> (statement: [UInt8], signature: [UInt8]) {
        var data = try MarshallingUnit.read(
            MarshallingUnit.sized(challenge), into: TPM2B_DATA(), Tss2_MU_TPM2B_DATA_Unmarshal)
        var scheme = TPMT_SIG_SCHEME()
        scheme.scheme = UInt16(TPM2_ALG_NULL)
        var statement: UnsafeMutablePointer<TPM2B_ATTEST>?
        var signature: UnsafeMutablePointer<TPMT_SIGNATURE>?
        try Self.check(
            Esys_Certify(
                context, object, signer, Self.password, Self.password, UInt32(ESYS_TR_NONE), &data,
                &scheme, &statement,
                &signature),
            "Esys_Certify")
        let bytes = try MarshallingUnit.write(
            Self.take(statement, "Esys_Certify"), Tss2_MU_TPM2B_ATTEST_Marshal)
        return (
            Array(bytes.dropFirst(2)),
            try MarshallingUnit.write(
                Self.take(signature, "Esys_Certify"), Tss2_MU_TPMT_SIGNATURE_Marshal)
        )
    }

    /// MakeCredential under a storage key.
    ///
    /// - Returns: The contents of `TPM2B_ID_OBJECT` and `TPM2B_ENCRYPTED_SECRET`.
    func makeCredential(
        _ credential: [UInt8], under key: ESYS_TR, for name: [UInt8]
    ) throws -> (blob: [UInt8], secret: [UInt8]) {
        var credential = try MarshallingUnit.digest(credential)
        var name = try MarshallingUnit.read(
            MarshallingUnit.sized(name), into: TPM2B_NAME(), Tss2_MU_TPM2B_NAME_Unmarshal)
        var blob: UnsafeMutablePointer<TPM2B_ID_OBJECT>?
        var secret: UnsafeMutablePointer<TPM2B_ENCRYPTED_SECRET>?
        try Self.check(
            Esys_MakeCredential(
                context, key, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &credential, &name,
                &blob, &secret),
            "Esys_MakeCredential")
        let contents = (
            try MarshallingUnit.write(
                Self.take(blob, "Esys_MakeCredential"), Tss2_MU_TPM2B_ID_OBJECT_Marshal),
            try MarshallingUnit.write(
                Self.take(secret, "Esys_MakeCredential"), Tss2_MU_TPM2B_ENCRYPTED_SECRET_Marshal)
        )
        return (Array(contents.0.dropFirst(2)), Array(contents.1.dropFirst(2)))
    }

    /// ActivateCredential with the empty password of both keys.
    ///
    /// - Returns: The credential.
    func activateCredential(
        _ blob: [UInt8], secret: [UInt8], for object: ESYS_TR, with key: ESYS_TR
    ) throws -> [UInt8] {
        var blob = try MarshallingUnit.read(
            MarshallingUnit.sized(blob), into: TPM2B_ID_OBJECT(), Tss2_MU_TPM2B_ID_OBJECT_Unmarshal)
        var secret = try MarshallingUnit.read(
            MarshallingUnit.sized(secret), into: TPM2B_ENCRYPTED_SECRET(),
            Tss2_MU_TPM2B_ENCRYPTED_SECRET_Unmarshal)
        var credential: UnsafeMutablePointer<TPM2B_DIGEST>?
        try Self.check(
            Esys_ActivateCredential(
                context, object, key, Self.password, Self.password, UInt32(ESYS_TR_NONE), &blob,
                &secret, &credential),
            "Esys_ActivateCredential")
        return try MarshallingUnit.bytes(Self.take(credential, "Esys_ActivateCredential"))
    }
}
