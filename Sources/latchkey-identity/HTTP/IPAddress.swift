import Glibc
import NIOCore

/// An IP address in the one spelling that it has here, so that it is equal to itself.
struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    let description: String

    /// - Returns: nil when `text` is not an IPv4 or IPv6 address and nothing else.
    init?(_ text: String) {
        guard let address = try? SocketAddress(ipAddress: text, port: 0), let canonical = address.ipAddress else {
            return nil
        }
        // A socket that listens on IPv6 and IPv4 alike names its IPv4 peers so (RFC 4291 section 2.5.5.2).
        let mapped = "::ffff:"
        description =
            canonical.hasPrefix(mapped) && canonical.contains(".")
            ? String(canonical.dropFirst(mapped.count)) : canonical
    }

    /// Whose address it is, as far as limits can tell: an IPv4 address itself, and of an IPv6 address its first 64 bits,
    /// for the other 64 are its owner's to choose (RFC 4291 section 2.5.1, RFC 6177).
    var network: String {
        var address = [UInt8](repeating: 0, count: 16)
        guard inet_pton(AF_INET6, description, &address) == 1 else { return description }
        return address.prefix(8).map { $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16) }.joined() + "/64"
    }
}
