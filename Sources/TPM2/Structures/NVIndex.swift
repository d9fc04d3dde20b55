/// A piece of the TPM's non-volatile memory.
public struct NVIndex: TPMEntity, Hashable, Sendable {
    public let handle: TPMHandle
    public let publicArea: NVPublicArea
    public let name: TPMName

    /// - Throws: ``TPMError`` of kind `unsupported` when the Name's hash algorithm is unknown here.
    public init(publicArea: NVPublicArea) throws(TPMError) {
        self.publicArea = publicArea
        handle = publicArea.index
        name = try publicArea.name
    }
}
