import Latchkey

/// Addresses of servers, as people write them.
enum ServerAddress {
    /// Whether both name the same server, however their case and last slash are written.
    static func isSame(_ one: String, _ other: String) -> Bool {
        guard let one = Endpoint(one), let other = Endpoint(other) else { return one == other }
        return bare(one) == bare(other)
    }

    private static func bare(_ endpoint: Endpoint) -> String {
        endpoint.text.hasSuffix("/") ? String(endpoint.text.dropLast()) : endpoint.text
    }
}
