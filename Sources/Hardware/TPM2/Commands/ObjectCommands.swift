/// `TPM2_Create` (Part 3 section 12.1): creates an object under a parent. The object is not loaded.
package struct Create: TPMCommand {
    package typealias Response = CreatedObject
    package static let code = TPMCommandCode.create
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let template: PublicArea
    private let authValue: AuthValue
    private let data: SensitiveData
    private let outsideInfo: [UInt8]

    /// - Parameters:
    ///   - authValue: The authValue of the new object.
    ///   - data: The data to seal in a keyed-hash object, at most 128 bytes. To encrypt the data
    ///     and `authValue` on the bus, authorize the command with a session that has the attribute
    ///     `decrypt`.
    ///   - outsideInfo: At most 64 bytes for the creation data. A verifier's challenge proves that
    ///     the object was created after it was issued.
    package init(
        _ template: PublicArea, authValue: AuthValue = .empty, sealing data: SensitiveData? = nil,
        outsideInfo: [UInt8] = [], under parent: TPMObject
    ) {
        entities = NamedHandle.area(parent)
        self.template = template
        self.authValue = authValue
        self.data = data ?? SensitiveData()
        self.outsideInfo = outsideInfo
    }

    package func marshal(into writer: inout TPMWriter) {
        // The size of TPMS_SENSITIVE_CREATE; at the end no PCRs.
        writer.write(UInt16(4 + authValue.count + data.count), authValue, data)
        writer.write(TPM2B(template), TPM2B(outsideInfo), UInt32(0))
    }
}

/// `TPM2_Load` (section 12.2). The object stays loaded until it is flushed, for example by
/// ``TPM/withLoaded(_:_:under:authorizedBy:_:)``.
///
/// The response is of kind `forged` when the TPM returned a different Name.
package struct Load: TPMCommand {
    package static let code = TPMCommandCode.load
    package static let authorizedHandles = 1
    package static let returnsHandle = true
    package let entities: [NamedHandle]
    private let privatePart: PrivateBlob
    private let publicArea: PublicArea

    package init(_ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject) {
        entities = NamedHandle.area(parent)
        self.privatePart = privatePart
        self.publicArea = publicArea
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(privatePart, TPM2B(publicArea))
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> TPMObject {
        try TPMObject(handle: reader.read(), publicArea: publicArea, namedBy: &reader)
    }
}

/// `TPM2_LoadExternal` (section 12.3) for a public key. The object stays loaded until it is
/// flushed.
package struct LoadExternal: TPMCommand {
    package static let code = TPMCommandCode.loadExternal
    package static let returnsHandle = true
    private let publicArea: PublicArea
    private let hierarchy: Hierarchy

    package init(_ publicArea: PublicArea, in hierarchy: Hierarchy = .null) {
        self.publicArea = publicArea
        self.hierarchy = hierarchy
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(), TPM2B(publicArea), hierarchy.handle)
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> TPMObject {
        try TPMObject(handle: reader.read(), publicArea: publicArea, namedBy: &reader)
    }
}

/// `TPM2_ReadPublic` (section 12.4).
///
/// The Name is recomputed and compared, which detects transmission errors. It does not authenticate
/// the TPM: compare the public area with a pinned one before you salt a session to it.
package struct ReadPublic: TPMCommand {
    package static let code = TPMCommandCode.readPublic
    package let entities: [NamedHandle]
    private let handle: TPMHandle

    package init(_ handle: TPMHandle) {
        entities = [NamedHandle(unnamed: handle)]
        self.handle = handle
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> TPMObject {
        let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        let object = try TPMObject(handle: handle, publicArea: publicArea, namedBy: &reader)
        // The qualified Name.
        _ = try reader.read(TPMName.self)
        return object
    }
}

/// `TPM2_ActivateCredential` (section 12.5): opens a credential that was encrypted to an
/// endorsement key for one key. It succeeds only if both keys are in this TPM, and the key has the
/// Name for which the credential was made.
///
/// The key is authorized in the ADMIN role. To encrypt the credential on the bus, one of the two
/// authorizations must be a session that has the attribute `encrypt`.
package struct ActivateCredential: TPMCommand {
    package static let code = TPMCommandCode.activateCredential
    package static let authorizedHandles = 2
    package let entities: [NamedHandle]
    private let blob: [UInt8]
    private let secret: [UInt8]

    /// - Parameters:
    ///   - blob: The content of `TPM2B_ID_OBJECT`.
    ///   - secret: The content of `TPM2B_ENCRYPTED_SECRET`.
    package init(
        _ blob: [UInt8], secret: [UInt8], for key: TPMObject, with endorsementKey: TPMObject
    ) {
        entities = NamedHandle.area(key, endorsementKey)
        self.blob = blob
        self.secret = secret
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(TPM2B(blob), TPM2B(secret)) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> SensitiveData {
        try reader.readSensitive(maximum: 64)
    }
}

/// `TPM2_Unseal` (section 12.7).
package struct Unseal: KeyCommand {
    package static let code = TPMCommandCode.unseal
    package static let isResponseSecret = true
    package var key: NamedHandle

    package init(_ item: any TPMEntity) { key = NamedHandle(item) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> SensitiveData {
        try reader.readSensitive(maximum: 256)
    }
}

/// `TPM2_ObjectChangeAuth` (section 12.8): wraps the object with another authValue. The old private
/// part stays valid with the old authValue.
///
/// The object is authorized in the ADMIN role. To encrypt the new authValue on the bus, use a
/// session that has the attribute `decrypt`.
package struct ObjectChangeAuth: TPMCommand {
    package typealias Response = PrivateBlob
    package static let code = TPMCommandCode.objectChangeAuth
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let authValue: AuthValue

    package init(of object: TPMObject, under parent: TPMObject, to newAuthValue: AuthValue) {
        entities = NamedHandle.area(object, parent)
        authValue = newAuthValue
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(authValue) }
}

extension TPM {
    /// Loads an object, lends it to `body`, and flushes it.
    package func withLoaded<R>(
        _ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        let load = Load(privatePart, publicArea, under: parent)
        return try lending(execute(load, authorizedBy: authorization), body)
    }
}
