public import HTTPTypes

/// How a facade reaches its server: one request, one response.
///
/// An implementation verifies TLS, follows no redirects, keeps no cookies, bounds the response's size, and has a
/// deadline of its own. It throws ``KeystoreError`` with code `unavailable` when no response came; every status code
/// is an ordinary result.
public protocol HTTPTransport: Sendable {
    /// - Parameters:
    ///   - request: Method, URL and headers.
    ///   - body: The bytes to send; empty for none.
    /// - Returns: The response and its whole body.
    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8])
}
