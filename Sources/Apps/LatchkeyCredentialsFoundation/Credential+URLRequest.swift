// URLRequest is in Foundation and FoundationNetworking. Only programs that import this module link
// them.
internal import Foundation
public import FoundationNetworking
internal import HTTPTypes
public import LatchkeyCredentials

extension Credential {
    /// Adds the access token to a request, as `authorize(_:)` does, and refreshes the token first
    /// if it is about to expire.
    ///
    /// - Throws: `CredentialError`; `refused` for a request that uses neither `https` nor this
    ///   machine's loopback address.
    public func authorize(_ request: inout URLRequest) async throws {
        let url = request.url
        let port = url?.port.map { ":\($0)" } ?? ""
        var same = HTTPRequest(
            method: .get, scheme: url?.scheme, authority: url?.host.map { $0 + port },
            path: url?.path)
        try await authorize(&same)
        request.setValue(same.headerFields[.authorization], forHTTPHeaderField: "Authorization")
    }
}
