/// An object that is in the TPM: a loaded (transient) one, or a persistent one.
public struct TPMObject: TPMEntity, Hashable, Sendable {
    /// Its handle while it is loaded.
    public let handle: TPMHandle
    /// Its public half.
    public let publicArea: PublicArea
    /// The Name, computed here from ``publicArea``.
    public let name: TPMName

    /// - Throws: ``TPMError`` of kind `unsupported` when the Name's hash algorithm is unknown here.
    public init(handle: TPMHandle, publicArea: PublicArea) throws(TPMError) {
        self.handle = handle
        self.publicArea = publicArea
        name = try publicArea.name
    }
}
