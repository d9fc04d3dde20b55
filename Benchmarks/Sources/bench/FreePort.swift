import Glibc

/// A port of 127.0.0.1 that no program uses.
enum FreePort {
    static func find() throws -> Int {
        let listener = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { throw Failure(reason: "there is no socket left") }
        defer { close(listener) }
        var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
        let status = withUnsafeMutableBytes(of: &address) { bytes in
            // Without an address, the kernel chooses a port.
            bytes.withMemoryRebound(to: sockaddr.self) { address in
                listen(listener, 0) == 0 ? getsockname(listener, address.baseAddress, &length) : -1
            }
        }
        guard status == 0 else { throw Failure(reason: "there is no port left") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
