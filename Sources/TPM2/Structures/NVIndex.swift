/// A piece of the TPM's non-volatile memory.
public struct NVIndex: TPMEntity, Hashable, Sendable {
    /// Its handle.
    public let handle: TPMHandle
    /// Its public area.
    public let publicArea: NVPublicArea
    /// Its Name.
    public let name: TPMName

    /// - Throws: ``TPMError`` of kind `unsupported` when the Name's hash algorithm is unknown here.
    public init(publicArea: NVPublicArea) throws(TPMError) {
        self.publicArea = publicArea
        handle = publicArea.index
        name = try publicArea.name
    }
}
