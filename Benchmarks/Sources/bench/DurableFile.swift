import Foundation

/// A file in the current directory, which is on a disk.
final class DurableFile {
    private let descriptor: Int32
    private let page = [UInt8](repeating: 0xA5, count: 4096)
    private var offset = 0

    init() throws {
        var path = Array(".bench-XXXXXX".utf8CString)
        descriptor = mkstemp(&path)
        guard descriptor >= 0 else {
            throw Failure(reason: "no file can be created in the current directory")
        }
        unlink(path)
    }

    deinit { close(descriptor) }

    func write() throws {
        guard pwrite(descriptor, page, page.count, off_t(offset)) == page.count,
            fdatasync(descriptor) == 0
        else {
            throw Failure(reason: "writing to the current directory failed")
        }
        offset += page.count
    }
}
