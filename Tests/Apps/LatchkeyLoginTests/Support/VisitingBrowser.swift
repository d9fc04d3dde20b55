import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import Synchronization

/// A browser whose user logs in at once: it takes the login page's address to the server, and goes
/// where that sends it.
final class VisitingBrowser: Browser {
    private let identity: FakeIdentity
    private let pages = Mutex<[[String: String]]>([])

    init(_ identity: FakeIdentity) {
        self.identity = identity
    }

    /// The queries of the pages that were shown, in order.
    var visited: [[String: String]] { pages.withLock(\.self) }

    func open(_ url: String) async throws {
        guard let query = try await loginPage(url) else { return }
        pages.withLock { $0.append(query) }
        // A page of the server, without an answer.
        guard query["response_type"] == "code" else { return }
        let back = await identity.visit(query)
        _ = try await get("\(query["redirect_uri"] ?? "")?\(back)")
    }
}

/// The query of the login page to which a login's link leads, or nil when it leads nowhere.
func loginPage(_ link: String) async throws -> [String: String]? {
    guard let location = try await get(link).location else { return nil }
    let items = URLComponents(string: location)?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
}

/// A GET over the real transport.
func get(
    _ url: String, method: HTTPRequest.Method = .get
) async throws -> (status: Int, location: String?, body: String) {
    let parts = try parse(url)
    let request = HTTPRequest(
        method: method, scheme: parts.scheme, authority: parts.authority, path: parts.path)
    let (response, body) = try await CurlTransport().send(request, body: [])
    return (
        response.status.code, response.headerFields[.location],
        String(decoding: body, as: UTF8.self)
    )
}

private func parse(_ url: String) throws -> (scheme: String, authority: String, path: String) {
    let components = URLComponents(string: url)
    let port = components?.port.map { ":\($0)" } ?? ""
    let query = components?.percentEncodedQuery.map { "?\($0)" } ?? ""
    return (
        components?.scheme ?? "", (components?.host ?? "") + port,
        (components?.percentEncodedPath ?? "") + query
    )
}
