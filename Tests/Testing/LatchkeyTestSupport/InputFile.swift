internal import LatchkeySimulators
package import Subprocess
internal import SystemPackage

extension InputProtocol where Self == FileDescriptorInput {
    /// Input from a file that is removed at once.
    ///
    /// Not `.array` or `.string`: swift-subprocess then ends this process if the program ends
    /// before it gets its input (swift-subprocess#367).
    package static func file(with bytes: some Sequence<UInt8>) throws -> FileDescriptorInput {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let file = try FileDescriptor.open(
            directory.path(of: "input"), .readWrite,
            options: [.create, .exclusiveCreate, .closeOnExec],
            permissions: .ownerReadWrite)
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
