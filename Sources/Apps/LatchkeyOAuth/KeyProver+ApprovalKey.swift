package import FoundationEssentials
internal import Latchkey
package import LatchkeyJOSE

extension KeyProver {
    private struct Challenge: Decodable {
        struct Result: Decodable { let token: String }
        let result: Result
    }

    private struct Enrolled: Decodable {
        let name: String
    }

    /// Enrols the presence broker's approval key, after ``prepare(authorization:now:isAgreed:)``.
    ///
    /// - Parameters:
    ///   - authorization: The administrators' token for it, as the value of the field
    ///     `Authorization`.
    ///   - certify: Returns the statement about the approval key for a challenge.
    /// - Returns: The Name of the approval key, as the server understood it.
    package func enrolApprovalKey(
        authorization: String, certify: (Data) async throws -> JSONValue
    ) async throws -> String {
        guard let challenges = client.metadata.challenge else {
            throw LatchkeyError<Code>(.malformed)
        }
        let token = try await client.connection.post(
            ["purpose": "approval_key_request"], to: challenges
        )
        .successful().json(Challenge.self).result.token
        let statement = try await certify(Data(token.utf8))
        let endpoint = try client.endpoint(.attestation).appending("/approval-key")
        return try await client.connection.post(
            ["challenge": .string(token), "attestation": statement], to: endpoint,
            authorization: authorization
        ).successful().json(Enrolled.self).name
    }
}
