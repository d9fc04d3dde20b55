import Foundation
import Glibc
import Testing

/// A "TPM" on a UNIX socket that answers every connection with a few bytes and then says nothing more.
final class StallingServer: Sendable {
    private let listener: Int32

    init(path: String, sending bytes: [UInt8]) throws {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) == 0 }
        }
        try #require(isBound && listen(listener, 8) == 0)
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                // Closed by the end of the test process: a stalled peer keeps its side open.
                _ = write(client, bytes, bytes.count)
            }
        }
    }

    func close() {
        shutdown(listener, Int32(SHUT_RDWR))
        _ = Glibc.close(listener)
    }
}
