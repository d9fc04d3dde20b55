internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The key under which everything of this keystore is wrapped, as it is pinned at the first use.
///
/// Sessions are salted to the pinned public area, never to one that was just read: whoever sits on the bus can answer
/// with a key of its own (rule R2 of the TPM reference).
struct StorageRoot: Hashable, Sendable {
    /// Where the key is.
    enum Location: UInt8 {
        /// At ``TPMHandle/storageRootKey``.
        case persistent = 0
        /// Made from the owner's seed for each operation: the handle holds somebody else's key, or there is no room.
        case transient = 1
    }

    let location: Location
    let assuranceRoot: AssuranceLevel.Root
    let publicArea: PublicArea
    let name: TPMName

    init(location: Location, assuranceRoot: AssuranceLevel.Root, publicArea: PublicArea) throws(TPMError) {
        self.location = location
        self.assuranceRoot = assuranceRoot
        self.publicArea = publicArea
        name = try publicArea.name
    }

    /// The parent as a `TSS2 PRIVATE KEY` names it.
    var parentHandle: TPMHandle {
        location == .persistent ? .storageRootKey : Hierarchy.owner.handle
    }
}

extension StorageRoot {
    /// The name under which it is pinned.
    static let anchorName = "tpm/storage-root"

    private static let version: UInt8 = 1

    /// The pinned form: a version, the location, whether the TPM is software, the public area.
    var anchor: Data {
        var writer = TPMWriter()
        writer.write(Self.version)
        writer.write(location.rawValue)
        writer.write(UInt8(assuranceRoot == .tpm ? 0 : 1))
        writer.writeSized(publicArea)
        return Data(writer.bytes)
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(anchor: Data) throws(TPMError) {
        var reader = TPMReader(anchor)
        let version = try reader.read(UInt8.self)
        let location = Location(rawValue: try reader.read())
        let simulated = try reader.read(UInt8.self)
        let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        try reader.finish()
        guard version == Self.version, let location, simulated <= 1, publicArea.isMade(from: KeyTemplates.storageRoot)
        else { throw TPMError(.malformed, reason: "the pinned storage root key has another form") }
        try self.init(location: location, assuranceRoot: simulated == 0 ? .tpm : .swtpm, publicArea: publicArea)
    }
}
