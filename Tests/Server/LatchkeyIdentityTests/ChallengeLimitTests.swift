import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("The number of challenges") struct ChallengeLimitTests {
    @Test func `challenges are limited per address and minute, and expired ones are deleted`()
        async throws
    {
        try await TestServer.run {
            $0.rateLimits.challengePerAddress = 3
        } body: { server in
            for _ in 1...3 { _ = try await server.challenge() }
            for _ in 1...5 {
                let refused = try await server.post(
                    "/oauth2/challenge", json: #"{"purpose":"biometric_request"}"#)
                #expect(refused.status == 429)
                #expect(try refused.json["error"]?["reason"]?.string == "RateLimited")
                #expect(refused.headers[.retryAfter] == "60")
            }
            #expect(try await Self.rows(server) == 3)

            server.time.advance(by: 60)
            _ = try await server.challenge()
            #expect(try await Self.rows(server) == 4)

            // The first three are five minutes old, the fourth is four.
            server.time.advance(by: 240)
            _ = try await server.challenge()
            #expect(try await Self.rows(server) == 2)
        }
    }

    @Test func `the limit is configurable and must be at least 1`() throws {
        func configuration(_ limit: Int) throws -> ServerConfiguration {
            try ServerConfiguration(
                json: Data(
                    #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "rate_limits": {"challenge_per_address": \#(limit)}}"#
                        .utf8))
        }
        #expect(try configuration(7).rateLimits.challengePerAddress == 7)
        #expect(throws: ConfigurationError.self) { _ = try configuration(0) }
    }

    private static func rows(_ server: TestServer) async throws -> Int? {
        try await server.services.users.database.read {
            try $0.row("SELECT count(*) AS count FROM latchkey_challenge")?.integer("count")
        }
    }
}
