import Synchronization

/// The server's origin, such as `http://127.0.0.1:43210`. Without `public_origin` it is known when
/// the server listens.
final class Origin: Sendable {
    private let origin: Mutex<String?>

    init(_ fixed: String?) { origin = Mutex(fixed) }

    /// The origin; nil until the server listens, unless it is configured.
    var current: String? { origin.withLock { $0 } }

    /// Sets the origin, unless it is configured.
    func listening(on host: String, port: Int) {
        origin.withLock { $0 = $0 ?? Self.text(host: host, port: port) }
    }

    /// The origin of a server without TLS at an address or name.
    static func text(host: String, port: Int) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}
