/// `TPM2_NV_DefineSpace` (Part 3 section 31.3), authorized by the owner. Returns the index, which
/// is not yet written.
package struct NVDefineSpace: TPMCommand {
    package static let code = TPMCommandCode.nvDefineSpace
    package static let authorizedHandles = 1
    package let entities = NamedHandle.area(Hierarchy.owner)
    private let publicArea: NVPublicArea
    private let authValue: AuthValue

    /// - Parameter authValue: The authValue of the index. To encrypt it on the bus, use a session
    ///   that has the attribute `decrypt`.
    package init(_ publicArea: NVPublicArea, authValue: AuthValue = .empty) {
        self.publicArea = publicArea
        self.authValue = authValue
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(authValue, TPM2B(publicArea))
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> NVIndex {
        try NVIndex(publicArea: publicArea)
    }
}

/// `TPM2_NV_UndefineSpace` (section 31.4), authorized by the owner, or by the platform for an index
/// that it defined.
package struct NVUndefineSpace: TPMCommand {
    package static let code = TPMCommandCode.nvUndefineSpace
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]

    package init(_ index: NVIndex, by hierarchy: Hierarchy = .owner) {
        entities = NamedHandle.area(hierarchy, index)
    }
}

/// `TPM2_NV_ReadPublic` (section 31.6). Without a session that audits the command, the response is
/// not authenticated: an attacker on the bus can forge it.
package struct NVReadPublic: TPMCommand {
    package static let code = TPMCommandCode.nvReadPublic
    package let entities: [NamedHandle]

    package init(_ handle: TPMHandle) { entities = [NamedHandle(unnamed: handle)] }

    /// For a session, which needs the Name of the index.
    init(_ index: NVIndex) { entities = NamedHandle.area(index) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> NVIndex {
        let index = try NVIndex(publicArea: try reader.readSized(NVPublicArea.self, maximum: 256))
        guard try reader.read(TPMName.self) == index.name, index.handle == entities[0].handle else {
            throw .forged("the Name is not that of the index")
        }
        return index
    }
}

/// `TPM2_NV_Write` (section 31.7) of the whole index.
package struct NVWrite: TPMCommand {
    package static let code = TPMCommandCode.nvWrite
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let data: SensitiveData

    /// - Parameters:
    ///   - data: As many bytes as the index has, at most 512.
    ///   - entity: The authorizing entity, or nil for the index itself.
    package init(
        _ data: SensitiveData, to index: NVIndex, by entity: (any TPMEntity)? = nil
    ) {
        entities = NamedHandle.area(entity ?? index, index)
        self.data = data
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(data, UInt16(0)) }
}

/// `TPM2_NV_Increment` (section 31.8) of a counter.
package struct NVIncrement: TPMCommand {
    package static let code = TPMCommandCode.nvIncrement
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]

    /// - Parameter entity: The authorizing entity, or nil for the index itself.
    package init(_ index: NVIndex, by entity: (any TPMEntity)? = nil) {
        entities = NamedHandle.area(entity ?? index, index)
    }
}

/// `TPM2_NV_Read` (section 31.13) of at most 512 bytes. To encrypt them on the bus, authorize the
/// command with a session that has the attribute `encrypt`.
package struct NVRead: TPMCommand {
    package static let code = TPMCommandCode.nvRead
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let offset: UInt16
    private let count: UInt16

    /// Reads a whole index, which its own authValue or policy authorizes.
    package init(_ index: NVIndex) {
        self.init(index, by: index, offset: 0, count: index.publicArea.dataSize)
    }

    init(_ index: NVIndex, by entity: any TPMEntity, offset: UInt16, count: UInt16) {
        entities = NamedHandle.area(entity, index)
        self.offset = offset
        self.count = count
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(count, offset) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> SensitiveData {
        let part = try reader.readSensitive(maximum: Int(count))
        guard part.count == count else {
            throw .malformed("an index returned \(part.count) bytes of \(count)")
        }
        return part
    }
}

/// `TPM2_NV_ChangeAuth` (section 31.15). The old authValue is no longer valid.
///
/// The index is authorized in the ADMIN role, which for an index is its policy. To encrypt the new
/// authValue on the bus, use a session that has the attribute `decrypt`.
package struct NVChangeAuth: TPMCommand {
    package static let code = TPMCommandCode.nvChangeAuth
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    package let newAuthValue: AuthValue?
    private let authValue: AuthValue

    package init(of index: NVIndex, to newAuthValue: AuthValue) {
        entities = NamedHandle.area(index)
        self.newAuthValue = newAuthValue
        authValue = newAuthValue
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(authValue) }
}

extension TPM {
    /// Returns the index at a handle, or nil for an unused handle. The TPM authenticates both
    /// answers: `TPM2_GetCapability`, and for a used handle `TPM2_NV_ReadPublic` twice, since a
    /// session needs the Name of the index.
    ///
    /// An error response is not authenticated, so `TPM_RC_HANDLE` alone does not prove that an
    /// index is gone.
    ///
    /// - Parameter session: An HMAC session that is salted to a key that the caller knows to be the
    ///   TPM's.
    package func provenIndex(at handle: TPMHandle, auditedBy session: Session) throws(TPMError)
        -> NVIndex?
    {
        guard try handles(from: handle, count: 1, auditedBy: session).first == handle else {
            return nil
        }
        do {
            return try execute(
                NVReadPublic(execute(NVReadPublic(handle))),
                authorizedBy: .continuing(session, protecting: .audit))
        } catch {
            // The session has just authenticated itself, so an authorization failure is about the
            // Name.
            switch error.responseCode {
            case .handle?, .badAuth?, .authFail?:
                throw TPMError(
                    .forged, command: .nvReadPublic,
                    reason:
                        "the response says that an index is missing, but the TPM proved that it exists"
                )
            default: throw error
            }
        }
    }

    /// Reads a whole index that is not secret, in parts of a size that all TPMs support.
    ///
    /// - Parameter entity: The authorizing entity: the owner, if the index permits it, or nil for
    ///   the index itself.
    package func nvRead(
        _ index: NVIndex, by entity: (any TPMEntity)? = nil,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> [UInt8] {
        var data: [UInt8] = []
        while data.count < Int(index.publicArea.dataSize) {
            let count = min(512, index.publicArea.dataSize - UInt16(data.count))
            let part = NVRead(
                index, by: entity ?? index, offset: UInt16(data.count), count: count)
            data += try execute(part, authorizedBy: authorization).bytes
        }
        return data
    }
}
