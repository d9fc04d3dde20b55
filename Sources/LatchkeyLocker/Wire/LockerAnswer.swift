internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// What the server answered, when it was no error.
struct LockerAnswer: Sendable {
    /// The HTTP status, 200 to 299.
    let status: Int
    let fields: HTTPFields
    let body: Data

    /// The server's clock (RFC 9110 section 6.6.1); whole seconds.
    var date: Date? { fields[.date].flatMap(HTTPDate.parse) }

    /// - Parameter isOfLocker: Whether the locker's own protocol is spoken there. Nobody else's word ends an enrolment.
    /// - Throws: ``ErsteGroupAuthError`` when no answer comes, and for every one outside of 200 to 299.
    static func success(
        _ transport: any HTTPTransport, _ request: HTTPRequest, _ body: [UInt8], isOfLocker: Bool = false,
        _ operation: String
    ) async throws(ErsteGroupAuthError) -> LockerAnswer {
        let response: HTTPResponse
        let bytes: [UInt8]
        do {
            (response, bytes) = try await transport.send(request, body: body)
        } catch {
            throw .transport(operation, error)
        }
        let body = Data(bytes)
        guard (200..<300).contains(response.status.code) else {
            guard let error = try? JSONDecoder().decode(OAuth2Error.self, from: body) else {
                throw .unexpectedStatus(operation, response.status.code)
            }
            throw isOfLocker
                ? .refusedByLocker(operation, error, status: response.status.code)
                : .refused(operation, error, status: response.status.code)
        }
        return LockerAnswer(status: response.status.code, fields: response.headerFields, body: body)
    }

    /// That it is what the protocol says to a request that was carried out and has nothing to tell: 204, and no page of
    /// somebody in between.
    func checkDone(_ operation: String) throws(ErsteGroupAuthError) {
        guard status == 204 else { throw .unexpectedStatus(operation, status) }
    }

    func json<T: Decodable>(_ type: T.Type, _ operation: String) throws(ErsteGroupAuthError) -> T {
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
    }

    func tokens(_ operation: String) throws(ErsteGroupAuthError) -> TokenResponse {
        try json(TokenResponse.self, operation)
    }

    /// The shares in the answer; nil without any.
    func shares(_ operation: String) throws(ErsteGroupAuthError) -> LevelShares? {
        struct Answer: Decodable {
            let level_shares: LevelShares?
        }
        return try json(Answer.self, operation).level_shares
    }

    /// The scopes of a token; those asked for where the server doesn't say (RFC 6749 section 5.1).
    func scopes(asked: [String], _ operation: String) throws(ErsteGroupAuthError) -> [String] {
        struct Answer: Decodable {
            let scope: String?
        }
        return try json(Answer.self, operation).scope?.split(separator: " ").map(String.init) ?? asked
    }
}
