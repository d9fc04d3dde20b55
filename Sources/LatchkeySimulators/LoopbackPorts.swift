internal import Glibc

/// Finds ports that nobody uses.
enum LoopbackPorts {
    /// Two neighbours, both free just now; the first of them.
    ///
    /// - Returns: nil when many tries find none.
    static func freePair() -> UInt16? {
        for _ in 0..<64 {
            // Below the range from which Linux gives ports to connections (ip_local_port_range, from 32768).
            let first = UInt16.random(in: 20_000..<32_000)
            if isFree(first), isFree(first + 1) { return first }
        }
        return nil
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        } == 0
    }
}
