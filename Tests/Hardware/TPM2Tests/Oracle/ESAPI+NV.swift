internal import CESAPI
internal import CTSS2

/// Indices in non-volatile memory.
extension ESAPI {
    /// NV_DefineSpace under the owner.
    ///
    /// - Parameter area: A `TPMS_NV_PUBLIC`.
    func defineIndex(_ area: [UInt8], authValue: [UInt8] = []) throws -> ESYS_TR {
        var auth = try MarshallingUnit.digest(authValue)
        var area = try MarshallingUnit.read(
            MarshallingUnit.sized(area), into: TPM2B_NV_PUBLIC(), Tss2_MU_TPM2B_NV_PUBLIC_Unmarshal)
        var index = ESYS_TR()
        try Self.check(
            Esys_NV_DefineSpace(
                context, UInt32(ESYS_TR_RH_OWNER), UInt32(ESYS_TR_PASSWORD), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &auth, &area, &index),
            "Esys_NV_DefineSpace")
        return index
    }

    /// Returns an existing index.
    func index(_ handle: UInt32) throws -> ESYS_TR {
        var index = ESYS_TR()
        try Self.check(
            Esys_TR_FromTPMPublic(
                context, handle, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &index),
            "Esys_TR_FromTPMPublic")
        return index
    }

    /// NV_ReadPublic.
    ///
    /// - Returns: A `TPMS_NV_PUBLIC`, and the Name that the TPM gives with it.
    func publicArea(of index: ESYS_TR) throws -> (area: [UInt8], name: [UInt8]) {
        var area: UnsafeMutablePointer<TPM2B_NV_PUBLIC>?
        var name: UnsafeMutablePointer<TPM2B_NAME>?
        try Self.check(
            Esys_NV_ReadPublic(
                context, index, UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE), UInt32(ESYS_TR_NONE),
                &area, &name),
            "Esys_NV_ReadPublic")
        return (
            Array(
                try MarshallingUnit.write(
                    Self.take(area, "Esys_NV_ReadPublic"), Tss2_MU_TPM2B_NV_PUBLIC_Marshal
                ).dropFirst(2)),
            Array(
                try MarshallingUnit.write(
                    Self.take(name, "Esys_NV_ReadPublic"), Tss2_MU_TPM2B_NAME_Marshal
                )
                .dropFirst(2))
        )
    }

    /// NV_Read by the owner's empty password.
    func read(_ index: ESYS_TR, count: UInt16) throws -> [UInt8] {
        var data: UnsafeMutablePointer<TPM2B_MAX_NV_BUFFER>?
        try Self.check(
            Esys_NV_Read(
                context, UInt32(ESYS_TR_RH_OWNER), index, UInt32(ESYS_TR_PASSWORD),
                UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), count, 0, &data),
            "Esys_NV_Read")
        return Array(
            try MarshallingUnit.write(
                Self.take(data, "Esys_NV_Read"), Tss2_MU_TPM2B_MAX_NV_BUFFER_Marshal
            )
            .dropFirst(2))
    }

    /// NV_Write by the owner's empty password.
    func write(_ data: [UInt8], to index: ESYS_TR) throws {
        var buffer = try MarshallingUnit.read(
            MarshallingUnit.sized(data), into: TPM2B_MAX_NV_BUFFER(),
            Tss2_MU_TPM2B_MAX_NV_BUFFER_Unmarshal)
        try Self.check(
            Esys_NV_Write(
                context, UInt32(ESYS_TR_RH_OWNER), index, UInt32(ESYS_TR_PASSWORD),
                UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &buffer, 0),
            "Esys_NV_Write")
    }

    /// NV_Increment by the owner's empty password.
    func increment(_ index: ESYS_TR) throws {
        try Self.check(
            Esys_NV_Increment(
                context, UInt32(ESYS_TR_RH_OWNER), index, UInt32(ESYS_TR_PASSWORD),
                UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE)),
            "Esys_NV_Increment")
    }

    /// PolicyNV: the index, which has no authValue, begins with these bytes.
    func policyNVEquals(_ session: ESYS_TR, _ operand: [UInt8], in index: ESYS_TR) throws {
        var operand = try MarshallingUnit.digest(operand)
        try Self.check(
            Esys_PolicyNV(
                context, index, index, session, UInt32(ESYS_TR_PASSWORD), UInt32(ESYS_TR_NONE),
                UInt32(ESYS_TR_NONE), &operand, 0, UInt16(TPM2_EO_EQ)),
            "Esys_PolicyNV")
    }
}
