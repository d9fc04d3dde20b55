import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import NIOCore

extension HTTPFields {
    /// A header for which HTTPTypes has no constant.
    subscript(named name: String) -> String? {
        get { HTTPField.Name(name).flatMap { self[$0] } }
        set { if let name = HTTPField.Name(name) { self[name] = newValue } }
    }
}

extension Response {
    /// A JSON response with `no-store`.
    static func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) throws -> Response
    {
        Response(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: try CanonicalJSON.encode(value)))
        ).unstored()
    }

    /// Forbids storing, also by HTTP 1.0 caches, as deployed Authgear servers do.
    private func unstored() -> Response {
        var response = self
        response.headers[.cacheControl] = "no-store"
        response.headers[named: "Pragma"] = "no-cache"
        return response
    }

    /// The response with permission to store it, for documents that seldom change.
    var cachedForAnHour: Response {
        var response = self
        response.headers[.cacheControl] = "max-age=3600"
        response.headers[named: "Pragma"] = nil
        return response
    }

    /// A response with an empty body.
    static func empty(_ status: HTTPResponse.Status = .ok) -> Response {
        Response(status: status).unstored()
    }

    /// 303: the browser requests `location` with GET.
    static func seeOther(_ location: String) -> Response {
        Response(status: .seeOther, headers: [.location: location]).unstored()
    }

    /// The response with an OAuth error to `request`.
    static func refusal(_ error: OAuthError, of request: Request) throws -> Response {
        var members = ["error": error.error, "error_description": error.description]
        members["reason"] = error.reason
        var response = try json(members, status: .init(code: error.status))
        switch error.status {
        case 401 where request.accessToken == nil && error.isAboutBearerToken: break
        case 401, 403: response.headers[.wwwAuthenticate] = error.challenge(to: request)
        default: break
        }
        if let seconds = error.retryAfter { response.headers[.retryAfter] = String(seconds) }
        return response
    }
}
