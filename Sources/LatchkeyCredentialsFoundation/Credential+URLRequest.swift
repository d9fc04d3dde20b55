// Foundation, and with it FoundationNetworking, because that is where URLRequest is. Only who imports this module
// links them.
internal import Foundation
public import FoundationNetworking
internal import HTTPTypes
public import LatchkeyCredentials

extension Credential {
    /// Puts the access token into a request, refreshed first if it is about to end: `authorize(_:)` for `URLRequest`.
    ///
    /// - Throws: `CredentialError`; `refused` for a request that would send the token neither over `https` nor to this
    ///   machine.
    public func authorize(_ request: inout URLRequest) async throws {
        let url = request.url
        let port = url?.port.map { ":\($0)" } ?? ""
        var same = HTTPRequest(
            method: .get, scheme: url?.scheme, authority: url?.host.map { $0 + port }, path: url?.path)
        try await authorize(&same)
        request.setValue(same.headerFields[.authorization], forHTTPHeaderField: "Authorization")
    }
}
