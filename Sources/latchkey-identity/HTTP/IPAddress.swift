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
}
