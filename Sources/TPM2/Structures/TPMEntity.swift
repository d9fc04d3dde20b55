/// Something that a command's handle can point to. Commands are bound to its Name, not to its handle.
public protocol TPMEntity {
    var handle: TPMHandle { get }
    var name: TPMName { get }
}
