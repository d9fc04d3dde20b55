internal import Glibc
package import Subprocess
internal import SystemPackage

extension InputProtocol where Self == FileDescriptorInput {
    /// Input from a file without a name.
    ///
    /// Not `.array` or `.string`: swift-subprocess then ends this process if the program ends before it gets its input
    /// (swift-subprocess#367).
    package static func file(with bytes: some Sequence<UInt8>) throws -> FileDescriptorInput {
        let path = "/tmp/latchkey-input-\(UInt64.random(in: 0 ... .max))"
        let file = try FileDescriptor.open(
            path, .readWrite, options: [.create, .exclusiveCreate, .closeOnExec], permissions: .ownerReadWrite)
        unlink(path)
        do {
            _ = try file.writeAll(bytes)
            _ = try file.seek(offset: 0, from: .start)
        } catch {
            try file.close()
            throw error
        }
        return .fileDescriptor(file, closeAfterSpawningProcess: true)
    }
}
