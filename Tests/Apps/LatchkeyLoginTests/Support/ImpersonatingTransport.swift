import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth

/// A malicious server that relays another server: the discovery document names this server, and
/// challenges and tokens are the other server's.
struct ImpersonatingTransport: HTTPTransport {
    static let address = "https://other.test"

    let identity: FakeIdentity

    init(_ identity: FakeIdentity) {
        self.identity = identity
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let (response, bytes) = try await identity.send(request, body: body)
        guard request.path?.hasPrefix("/.well-known") == true else { return (response, bytes) }
        let text = String(decoding: bytes, as: UTF8.self).replacing("\\/", with: "/")
        return (response, Array(text.replacing(FakeIdentity.address, with: Self.address).utf8))
    }
}
