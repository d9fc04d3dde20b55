// URLRequest is in Foundation and FoundationNetworking. Only programs that import this module link
// them.
internal import Foundation
public import FoundationNetworking
internal import HTTPTypes
public import LatchkeyCredentials

extension Credential {
    /// Adds the access token to a request, as `authorize(_:nonce:reason:)` does, and refreshes the
    /// token first if it is about to expire.
    ///
    /// - Parameters:
    ///   - nonce: As in `authorize(_:nonce:reason:)` for `HTTPRequest`.
    ///   - reason: The reason in the prompt.
    /// - Throws: `CredentialError`; `invalidInput` for a request that uses neither `https` nor this
    ///   machine's loopback address.
    public func authorize(
        _ request: inout URLRequest, nonce: String? = nil, reason: String? = nil
    ) async throws {
        let url = request.url
        let port = url?.port.map { ":\($0)" } ?? ""
        // The proof of a bound token names the encoded path.
        let path = url.flatMap { URLComponents(url: $0, resolvingAgainstBaseURL: true) }?
            .percentEncodedPath
        var same = HTTPRequest(
            method: HTTPRequest.Method(request.httpMethod ?? "GET") ?? .get, scheme: url?.scheme,
            authority: url?.host.map { $0 + port }, path: path)
        try await authorize(&same, nonce: nonce, reason: reason)
        request.setValue(same.headerFields[.authorization], forHTTPHeaderField: "Authorization")
        if let name = HTTPField.Name("DPoP"), let proof = same.headerFields[name] {
            request.setValue(proof, forHTTPHeaderField: "DPoP")
        }
    }
}
