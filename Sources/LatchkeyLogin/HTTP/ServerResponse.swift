internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey

/// What the server answered.
struct ServerResponse: Sendable {
    let status: Int
    let fields: HTTPFields
    let body: Data

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The server's clock, from the `Date` field (RFC 9110 section 6.6.1); whole seconds.
    var date: Date? {
        fields[.date].flatMap(HTTPDate.parse)
    }

    /// The JSON body of a successful answer.
    func json<T: Decodable>(_ type: T.Type, _ operation: String) throws(LoginError) -> T {
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
    }

    /// What an unsuccessful answer means. The body is judged by its content and not by its type: first as an OAuth
    /// error, then as an API error, and where it is neither the status speaks.
    func failure(_ operation: String) -> LoginError {
        if let error = try? JSONDecoder().decode(OAuthError.self, from: body) {
            return .oauth(operation, error, status: status)
        }
        if let error = try? JSONDecoder().decode(ServerError.Envelope.self, from: body) {
            return .server(operation, error.error, status: status)
        }
        return .unexpectedStatus(operation, status)
    }
}
