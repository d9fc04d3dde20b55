internal import FoundationEssentials
internal import Latchkey

/// A URL without query and fragment in normal form, to compare `htu` (RFC 9449 section 4.3): scheme
/// and host in lower case, no default port, no dot segments, and percent-encoding only where it is
/// necessary (RFC 3986 sections 6.2.2 and 6.2.3).
struct ComparableURL: Hashable, Sendable {
    private let scheme: String
    private let host: String
    private let port: Int?
    private let path: String

    /// - Returns: nil unless `text` is an absolute `http` or `https` URL without user name and
    ///   password.
    init?(_ text: String) {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let url = URL(string: text, encodingInvalidCharacters: false),
            let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host(percentEncoded: true)?.lowercased(), !host.isEmpty,
            url.user() == nil, url.password() == nil,
            let path = Self.normal(url.path(percentEncoded: true))
        else { return nil }
        self.scheme = scheme
        self.host = host
        port = url.port == (scheme == "https" ? 443 : 80) ? nil : url.port
        self.path = path
    }

    /// - Returns: nil for malformed percent-encoding.
    private static func normal(_ path: String) -> String? {
        var segments: [String] = []
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        for (index, part) in parts.enumerated() {
            guard let segment = decodingUnreserved(part) else { return nil }
            let isLast = index == parts.count - 1
            switch segment {
            case ".": if isLast { segments.append("") }
            case "..":
                _ = segments.popLast()
                if isLast { segments.append("") }
            default: segments.append(segment)
            }
        }
        return "/" + segments.joined(separator: "/")
    }

    /// Decodes the unreserved characters, and writes the other encodings in upper case.
    private static func decodingUnreserved(_ text: Substring) -> String? {
        var result: [UInt8] = []
        var bytes = Array(text.utf8)[...]
        while let byte = bytes.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                result.append(byte)
                continue
            }
            guard bytes.count >= 2,
                let value = UInt8(String(decoding: bytes.prefix(2), as: UTF8.self), radix: 16)
            else { return nil }
            let isUnreserved = value.isASCIILetterOrDigit || "-._~".utf8.contains(value)
            result +=
                isUnreserved
                ? [value]
                : [byte] + String(decoding: bytes.prefix(2), as: UTF8.self).uppercased().utf8
            bytes = bytes.dropFirst(2)
        }
        return String(decoding: result, as: UTF8.self)
    }
}
