/// An entity to which a handle of a command refers. Authorizations are bound to its Name, not to
/// its handle.
package protocol TPMEntity {
    /// The number by which the TPM refers to the entity.
    var handle: TPMHandle { get }
    /// The Name to which authorizations are bound (TPM 2.0 Part 1 section 16).
    var name: TPMName { get }
    /// Whether the entity must be flushed. False for a session that its last use closed.
    var isLoaded: Bool { get }
}

extension TPMEntity {
    package var isLoaded: Bool { true }
}

/// The number of an entity, `TPM_HANDLE` (TPM 2.0 Part 2 section 7). The top byte is its kind.
package struct TPMHandle: TPMNumber, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// No entity (`TPM_RH_NULL`).
    package static let null = TPMHandle(rawValue: 0x4000_0007)
    /// The password session (`TPM_RS_PW`).
    static let passwordSession = TPMHandle(rawValue: 0x4000_0009)
    /// The handle of the shared storage root key (TCG TPM v2.0 Provisioning Guidance section 7.8).
    package static let storageRootKey = TPMHandle(rawValue: 0x8100_0001)
    /// The first of the persistent handles.
    package static let persistentFirst = TPMHandle(rawValue: 0x8100_0000)
    /// The first of the transient handles.
    package static let transientFirst = TPMHandle(rawValue: 0x8000_0000)
    /// The first of the handles that `GetCapability` lists for loaded sessions.
    package static let loadedSessionFirst = TPMHandle(rawValue: 0x0200_0000)

    /// Whether it is the handle of an HMAC or policy session (Part 2 section 7.2).
    var isSession: Bool { (0x02...0x03).contains(rawValue >> 24) }
}

extension TPMHandle: CustomStringConvertible {
    package var description: String { "0x" + String(rawValue, radix: 16) }
}

/// An entity's Name, to which authorizations are bound (TPM 2.0 Part 1 section 16).
///
/// The Name of an object or NV index is `nameAlg ‖ H(public area)`. The Name of any other entity is
/// its 4-byte handle.
package struct TPMName: Hashable, Sendable {
    /// The maximum size in bytes: an algorithm and a SHA-512 digest.
    package static let maximumBytes = 66

    /// The two bytes of the hash algorithm and the digest, or the four bytes of a handle.
    package let bytes: [UInt8]

    /// Wraps the bytes of a Name.
    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// Creates the Name of an entity without a public area: its handle.
    package init(of handle: TPMHandle) { bytes = handle.marshalled }
}

extension TPMName: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        bytes = try reader.readSized(maximum: Self.maximumBytes)
    }

    package func marshal(into writer: inout TPMWriter) { writer.writeSized(bytes) }
}

/// A hierarchy or another permanent entity, `TPM_RH` (TPM 2.0 Part 2 section 7.4).
package struct Hierarchy: TPMEntity, Hashable, Sendable {
    package let handle: TPMHandle
    package var name: TPMName { TPMName(of: handle) }

    /// The storage hierarchy of the machine's owner (`TPM_RH_OWNER`).
    package static let owner = Hierarchy(handle: TPMHandle(rawValue: 0x4000_0001))
    /// A hierarchy whose seed changes at each reset (`TPM_RH_NULL`).
    package static let null = Hierarchy(handle: .null)
    /// The entity whose authorization ends a lockout (`TPM_RH_LOCKOUT`).
    package static let lockout = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000a))
    /// The hierarchy of the privacy administrator (`TPM_RH_ENDORSEMENT`).
    package static let endorsement = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000b))
    /// The hierarchy of the firmware (`TPM_RH_PLATFORM`).
    package static let platform = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000c))
}

/// A loaded (transient) or persistent object in the TPM.
package struct TPMObject: TPMEntity, Hashable, Sendable {
    /// The handle, valid while the object is loaded.
    package let handle: TPMHandle
    /// The public area.
    package let publicArea: PublicArea
    /// The Name, computed from ``publicArea``.
    package let name: TPMName

    /// Creates an object from its handle and public area.
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` when the Name's hash algorithm is not
    ///   supported.
    package init(handle: TPMHandle, publicArea: PublicArea) throws(TPMError) {
        self.handle = handle
        self.publicArea = publicArea
        name = try publicArea.name
    }

    /// Reads the object's Name, and compares it with that of the public area.
    init(handle: TPMHandle, publicArea: PublicArea, namedBy reader: inout TPMReader)
        throws(TPMError)
    {
        try self.init(handle: handle, publicArea: publicArea)
        guard try reader.read(TPMName.self) == name else {
            throw .forged("the Name is not that of the public area")
        }
    }
}

/// A handle and the Name to which authorizations are bound.
package struct NamedHandle: TPMEntity, Hashable, Sendable {
    package let handle: TPMHandle
    package let name: TPMName

    /// Refers to an entity.
    package init(_ entity: any TPMEntity) {
        handle = entity.handle
        name = entity.name
    }

    /// An object that is not loaded, for the hash of a command.
    package init(named name: TPMName) {
        handle = .null
        self.name = name
    }

    /// An entity whose Name is not known, for commands without authorization.
    init(unnamed handle: TPMHandle) {
        self.handle = handle
        name = TPMName(of: handle)
    }

    /// The handle area of a command.
    static func area(_ entities: any TPMEntity...) -> [NamedHandle] {
        entities.map { NamedHandle($0) }
    }
}
