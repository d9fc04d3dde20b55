internal import CESAPI
internal import CTSS2

extension ESAPI {
    /// A key as Create returned it, on the wire: `TPM2B_PRIVATE` and `TPM2B_PUBLIC`.
    struct WrappedKey: Sendable {
        let privateArea: [UInt8]
        let publicArea: [UInt8]
    }

    /// CreatePrimary under the owner.
    ///
    /// - Parameter template: A `TPM2B_PUBLIC`.
    func createPrimary(_ template: [UInt8]) throws -> ESYS_TR {
        var sensitive = TPM2B_SENSITIVE_CREATE()
        var area = try MarshallingUnit.publicArea(template)
        var outside = TPM2B_DATA()
        var pcrs = TPML_PCR_SELECTION()
        var handle = ESYS_TR()
        try Self.check(
            Esys_CreatePrimary(
                context, UInt32(ESYS_TR_RH_OWNER), UInt32(ESYS_TR_PASSWORD), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &sensitive, &area, &outside, &pcrs, &handle, nil, nil, nil,
                nil),
            "Esys_CreatePrimary")
        return handle
    }

    /// Create under `parent`, in `session`.
    ///
    /// - Parameters:
    ///   - authValue: The authValue of the new object.
    ///   - data: The data to seal.
    ///   - template: A `TPM2B_PUBLIC`.
    func create(
        under parent: ESYS_TR, authValue: [UInt8], sealing data: [UInt8] = [], template: [UInt8],
        session: ESYS_TR
    ) throws -> WrappedKey {
        var sensitive = TPM2B_SENSITIVE_CREATE()
        sensitive.sensitive.userAuth = try MarshallingUnit.digest(authValue)
        sensitive.sensitive.data = try MarshallingUnit.read(
            MarshallingUnit.sized(data), into: TPM2B_SENSITIVE_DATA(),
            Tss2_MU_TPM2B_SENSITIVE_DATA_Unmarshal)
        var area = try MarshallingUnit.publicArea(template)
        var outside = TPM2B_DATA()
        var pcrs = TPML_PCR_SELECTION()
        var privateArea: UnsafeMutablePointer<TPM2B_PRIVATE>?
        var publicArea: UnsafeMutablePointer<TPM2B_PUBLIC>?
        try Self.check(
            Esys_Create(
                context, parent, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), &sensitive,
                &area, &outside,
                &pcrs, &privateArea, &publicArea, nil, nil, nil),
            "Esys_Create")
        return WrappedKey(
            privateArea: try MarshallingUnit.write(
                Self.take(privateArea, "Esys_Create"), Tss2_MU_TPM2B_PRIVATE_Marshal),
            publicArea: try MarshallingUnit.bytes(Self.take(publicArea, "Esys_Create")))
    }

    func load(_ key: WrappedKey, under parent: ESYS_TR) throws -> ESYS_TR {
        var privateArea = try MarshallingUnit.read(
            key.privateArea, into: TPM2B_PRIVATE(), Tss2_MU_TPM2B_PRIVATE_Unmarshal)
        var publicArea = try MarshallingUnit.publicArea(key.publicArea)
        var handle = ESYS_TR()
        try Self.check(
            Esys_Load(
                context, parent, UInt32(ESYS_TR_PASSWORD), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &privateArea,
                &publicArea, &handle),
            "Esys_Load")
        return handle
    }

    /// LoadExternal of a public area alone.
    func loadExternal(_ area: [UInt8]) throws -> ESYS_TR {
        var area = try MarshallingUnit.publicArea(area)
        var handle = ESYS_TR()
        try Self.check(
            Esys_LoadExternal(
                context, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), nil,
                &area,
                UInt32(ESYS_TR_RH_OWNER), &handle),
            "Esys_LoadExternal")
        return handle
    }

    /// The Name, which ESAPI computes from the public area.
    func name(of handle: ESYS_TR) throws -> [UInt8] {
        var name: UnsafeMutablePointer<TPM2B_NAME>?
        try Self.check(Esys_TR_GetName(context, handle, &name), "Esys_TR_GetName")
        return Array(
            try MarshallingUnit.write(
                Self.take(name, "Esys_TR_GetName"), Tss2_MU_TPM2B_NAME_Marshal
            ).dropFirst(2))
    }

    func setAuthValue(_ value: [UInt8], of handle: ESYS_TR) throws {
        var auth = try MarshallingUnit.digest(value)
        try Self.check(Esys_TR_SetAuth(context, handle, &auth), "Esys_TR_SetAuth")
    }

    /// Sign with ECDSA and SHA-256, in `session`.
    ///
    /// - Returns: `r` and `s`, big-endian.
    func sign(_ digest: [UInt8], with key: ESYS_TR, session: ESYS_TR) throws -> (
        r: [UInt8], s: [UInt8]
    ) {
        var digest = try MarshallingUnit.digest(digest)
        var scheme = TPMT_SIG_SCHEME()
        scheme.scheme = UInt16(TPM2_ALG_NULL)
        var ticket = TPMT_TK_HASHCHECK()
        ticket.tag = UInt16(TPM2_ST_HASHCHECK)
        ticket.hierarchy = UInt32(TPM2_RH_NULL)
        var signature: UnsafeMutablePointer<TPMT_SIGNATURE>?
        try Self.check(
            Esys_Sign(
                context, key, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), &digest, &scheme,
                &ticket,
                &signature),
            "Esys_Sign")
        let ecdsa = try Self.take(signature, "Esys_Sign").signature.ecdsa
        return (
            try MarshallingUnit.bytes(ecdsa.signatureR), try MarshallingUnit.bytes(ecdsa.signatureS)
        )
    }

    func unseal(_ item: ESYS_TR, session: ESYS_TR) throws -> [UInt8] {
        var data: UnsafeMutablePointer<TPM2B_SENSITIVE_DATA>?
        try Self.check(
            Esys_Unseal(context, item, session, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), &data),
            "Esys_Unseal")
        return Array(
            try MarshallingUnit.write(
                Self.take(data, "Esys_Unseal"), Tss2_MU_TPM2B_SENSITIVE_DATA_Marshal
            )
            .dropFirst(2))
    }

    /// FlushContext, for a transient object or a session.
    func flush(_ handle: ESYS_TR) throws {
        try Self.check(Esys_FlushContext(context, handle), "Esys_FlushContext")
    }
}
