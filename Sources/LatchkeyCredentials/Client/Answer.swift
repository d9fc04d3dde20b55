internal import FoundationEssentials
internal import Latchkey

/// What a server answered.
struct Answer: Sendable {
    let status: Int
    let body: Data

    /// The JSON body of a successful answer.
    func json<T: Decodable>(_ type: T.Type, _ operation: String) throws(CredentialError) -> T {
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
    }

    /// What an unsuccessful answer means: an OAuth error where it is one, else the status speaks.
    func failure(_ operation: String) -> CredentialError {
        guard let error = try? JSONDecoder().decode(CredentialError.ServerError.self, from: body) else {
            return .unexpectedStatus(operation, status)
        }
        return .refused(operation, error, status: status)
    }
}
