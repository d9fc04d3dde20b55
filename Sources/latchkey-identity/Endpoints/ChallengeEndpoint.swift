import FoundationEssentials
import Hummingbird
import LatchkeyJOSE
import LatchkeyRelyingParty

/// Issues challenges: POST `/oauth2/challenge`.
struct ChallengeEndpoint: Sendable {
    let services: IdentityServices

    struct Answer: Encodable {
        struct Result: Encodable {
            let token: String
            let expire_at: String
        }

        let result: Result
    }

    func issue(_ request: Request, _ context: IdentityContext) async throws -> Response {
        var request = request
        guard services.challengeLimit.admit(context.network) else {
            var refusal = try APIError.rateLimited.response()
            refusal.headers[.retryAfter] = String(services.challengeLimit.secondsToWait(context.network))
            return refusal
        }
        let purpose = try purpose(in: try await request.jsonObject(context))
        let challenge = try await services.challenges.issue(purpose)
        return try .json(
            Answer(result: .init(token: challenge.token, expire_at: challenge.expiresAt.formatted(.iso8601))))
    }

    private func purpose(in body: [String: JSONValue]) throws -> ChallengePurpose {
        if let extra = body.keys.filter({ $0 != "purpose" }).min() {
            throw APIError.validationFailed(
                .object(["location": .string("/\(extra)"), "kind": .string("additionalProperties")]))
        }
        guard let member = body["purpose"] else {
            throw APIError.validationFailed(
                .object([
                    "location": .string(""), "kind": .string("required"),
                    "details": .object([
                        "actual": .null, "expected": .array([.string("purpose")]),
                        "missing": .array([.string("purpose")]),
                    ]),
                ]))
        }
        guard let purpose = member.string.flatMap(ChallengePurpose.init) else {
            throw APIError.validationFailed(
                .object([
                    "location": .string("/purpose"), "kind": .string("general"),
                    "details": .object(["msg": .string("unknown challenge purpose")]),
                ]))
        }
        return purpose
    }
}
