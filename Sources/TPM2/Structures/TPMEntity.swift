/// Something that a command's handle can point to. Commands are bound to its Name, not to its handle.
public protocol TPMEntity {
    /// The number by which the TPM knows it.
    var handle: TPMHandle { get }
    /// What an authorization names it by (TPM 2.0 Part 1 section 16).
    var name: TPMName { get }
}
