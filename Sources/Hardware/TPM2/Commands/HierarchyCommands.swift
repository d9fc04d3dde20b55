/// `TPM2_CreatePrimary` (Part 3 section 24.1): derives a key from the seed of a hierarchy. The same
/// template creates the same key until the hierarchy is cleared.
///
/// The object stays loaded until it is flushed, for example by
/// ``TPM/withPrimary(_:in:authorizedBy:_:)``.
package struct CreatePrimary: TPMCommand {
    package static let code = TPMCommandCode.createPrimary
    package static let authorizedHandles = 1
    package static let returnsHandle = true
    package let entities: [NamedHandle]
    private let template: PublicArea

    package init(_ template: PublicArea, in hierarchy: Hierarchy) {
        entities = NamedHandle.area(hierarchy)
        self.template = template
    }

    package func marshal(into writer: inout TPMWriter) {
        // TPM2B_SENSITIVE_CREATE with an empty authValue and no data, the template, no outsideInfo,
        // no PCRs.
        writer.write(TPM2B([0, 0, 0, 0]), TPM2B(template), TPM2B(), UInt32(0))
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> TPMObject {
        let handle = try reader.read(TPMHandle.self)
        let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        _ = try reader.readSized(CreationData.self, maximum: 1024)
        _ = try reader.readSized(maximum: 64)
        _ = try reader.read(Ticket.self)
        return try TPMObject(handle: handle, publicArea: publicArea, namedBy: &reader)
    }
}

/// `TPM2_DictionaryAttackLockReset` (section 25.4): ends a lockout. A wrong lockoutAuth disables
/// this command for ``TPMProperty/lockoutRecovery`` seconds.
package struct DictionaryAttackLockReset: TPMCommand {
    package static let code = TPMCommandCode.dictionaryAttackLockReset
    package static let authorizedHandles = 1
    package let entities = NamedHandle.area(Hierarchy.lockout)

    package init() {}
}

extension TPM {
    /// Creates a primary object, lends it to `body`, and flushes it.
    package func withPrimary<R>(
        _ template: PublicArea, in hierarchy: Hierarchy,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let create = CreatePrimary(template, in: hierarchy)
        return try lending(execute(create, authorizedBy: authorization), body)
    }
}
