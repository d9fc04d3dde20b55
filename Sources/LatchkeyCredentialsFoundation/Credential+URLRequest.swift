internal import FoundationEssentials
public import FoundationNetworking
public import LatchkeyCredentials

extension Credential {
    /// Puts the access token into a request, refreshed if it is about to end; as `authorize(_:)` does for an
    /// `HTTPRequest`.
    public func authorize(_ request: inout URLRequest) async throws {
        let value = try await authorization(for: request.url?.absoluteString ?? "")
        request.setValue(value, forHTTPHeaderField: "Authorization")
    }
}
