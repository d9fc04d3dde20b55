package import FoundationEssentials
public import HTTPTypes
public import Latchkey

/// Sends a facade's HTTP requests: one request, one response.
///
/// An implementation verifies TLS, follows no redirects, stores no cookies, limits the response's
/// size, and has its own deadline. It throws `CommonError` with code `unavailable` if no response
/// came; every status code is an ordinary result.
public protocol HTTPTransport: Sendable {
    /// - Parameters:
    ///   - request: Method, URL and headers.
    ///   - body: The bytes to send; empty for no body.
    /// - Returns: The response and its whole body.
    func send(_ request: HTTPRequest, body: [UInt8]) async throws(CommonError) -> (
        HTTPResponse, [UInt8]
    )

    /// Notes a part of a response that was skipped, and why. The default does nothing.
    ///
    /// - Parameter text: One line without secrets.
    func note(_ text: String)
}

extension HTTPTransport {
    public func note(_ text: String) {}
}

/// Parses dates of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7, IMF-fixdate).
package enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// - Returns: nil for any other text, including the obsolete forms.
    package static func parse(_ text: String) -> Date? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard
            parts.count == 6, parts[0].last == ",", parts[1].count == 2, parts[3].count == 4,
            parts[5] == "GMT",
            let month = months.firstIndex(of: String(parts[2])).map({ $0 + 1 })
        else { return nil }
        let time = parts[4].split(separator: ":").compactMap { UInt8($0) }
        guard time.count == 3, time[0] < 24, time[1] < 60, time[2] <= 60 else { return nil }
        let padded = month < 10 ? "0\(month)" : "\(month)"
        return try? Date("\(parts[3])-\(padded)-\(parts[1])T\(parts[4])Z", strategy: .iso8601)
    }
}
