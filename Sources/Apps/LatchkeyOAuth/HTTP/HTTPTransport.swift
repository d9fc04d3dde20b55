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

/// Parses dates of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7).
package enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Reads each of the three forms, as the section requires.
    ///
    /// - Returns: nil for any other text.
    package static func parse(_ text: String) -> Date? {
        let form = /[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9:]{8}) GMT/
        if let date = text.wholeMatch(of: form)?.output {
            return Self.date(day: date.1, month: date.2, year: date.3, time: date.4)
        }
        // The obsolete forms of RFC 850 and of asctime.
        let short = /[A-Z][a-z]{5,8}, ([0-9]{2})-([A-Z][a-z]{2})-([0-9]{2}) ([0-9:]{8}) GMT/
        if let date = text.wholeMatch(of: short)?.output {
            // A year of two digits is at most 50 years in the future, counted from 2026.
            let century = date.3 < "76" ? "20" : "19"
            return Self.date(day: date.1, month: date.2, year: century + date.3, time: date.4)
        }
        let asctime = /[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([0-9]{2}| [0-9]) ([0-9:]{8}) ([0-9]{4})/
        guard let date = text.wholeMatch(of: asctime)?.output else { return nil }
        return Self.date(
            day: date.2.replacing(" ", with: "0")[...], month: date.1, year: date.4, time: date.3)
    }

    private static func date(
        day: Substring, month: Substring, year: some StringProtocol, time: Substring
    ) -> Date? {
        guard let month = months.firstIndex(of: String(month)).map({ $0 + 1 }) else { return nil }
        let parts = time.split(separator: ":").compactMap { UInt8($0) }
        guard parts.count == 3, parts[0] < 24, parts[1] < 60, parts[2] <= 60 else { return nil }
        let padded = month < 10 ? "0\(month)" : "\(month)"
        return try? Date("\(year)-\(padded)-\(day)T\(time)Z", strategy: .iso8601)
    }
}
