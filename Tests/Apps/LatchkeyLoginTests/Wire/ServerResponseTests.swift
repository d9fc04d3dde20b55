import Foundation
import HTTPTypes
import Latchkey
import Testing

@testable import LatchkeyLogin
@testable import LatchkeyOAuth

struct ServerResponseTests {
    private func response(_ status: Int, _ body: String, _ fields: HTTPFields = [:])
        -> ServerResponse<LoginErrorCode>
    {
        ServerResponse(status: status, fields: fields, body: Data(body.utf8))
    }

    @Test(arguments: [
        (#"{"error":"invalid_grant","error_description":"x"}"#, 400, LoginError.Code.oauthError),
        (#"{"error":"invalid_grant"}"#, 401, .oauthError),
        (#"{"error":"x_rate_limited"}"#, 429, .rateLimited),
        (
            #"{"error":{"name":"NotFound","reason":"IdentityNotFound","message":"m","code":404}}"#,
            404, .serverError
        ),
        (
            #"{"error":{"name":"TooManyRequest","reason":"RateLimited","message":"m"}}"#, 429,
            .rateLimited
        ),
        (#"{"error":7}"#, 502, .unexpectedStatus),
        (#"{"errorCode":"E0000022","errorSummary":"No such operation"}"#, 405, .serverError),
        (#"{"error":{"code":400,"message":"Bad","status":"INVALID_ARGUMENT"}}"#, 400, .serverError),
        ("<html>", 503, .unexpectedStatus),
        ("", 302, .unexpectedStatus),
        ("", 429, .rateLimited),
    ])
    func `a body is decoded by its content, first as an OAuth error`(
        body: String, status: Int, code: LoginError.Code
    ) {
        let failure = LoginError(.refused(response(status, body).refusal))
        #expect(failure.code == code)
        #expect(failure.httpStatus == status)
        #expect(!failure.recovery.isEmpty)
    }

    @Test func `the server's clock is read in the three forms of dates, and no others`() {
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994", "Sun Nov 06 08:49:37 1994",
        ] {
            let read = response(200, "", [.date: date]).date
            #expect(read == Date(timeIntervalSince1970: 784_111_777), "\(date)")
        }
        let short = response(200, "", [.date: "Saturday, 28-Nov-26 00:00:00 GMT"]).date
        #expect(short == Date(timeIntervalSince1970: 1_795_824_000))
        for other in [
            "", "Sun, 06 Nov 1994 08:49:37 CET", "Sunday, 06-Nov-94 08:49:37",
            "Sun Nov 6 08:49:37 1994", "Sun Nov  6 08:49:37 1994 GMT", "784111777",
            "1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 ::::::37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 36 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nox 1994 08:49:37 GMT",
        ] {
            #expect(response(200, "", [.date: other]).date == nil, "\(other)")
        }
    }

    @Test(
        arguments: [
            ("1", "1 second"), ("40", "40 seconds"), ("60", "1 minute"), ("61", "2 minutes"),
            ("3600", "1 hour"), ("5400", "2 hours"), ("172800", "2 days"),
            ("Sun, 06 Nov 1994 08:50:07 GMT", "30 seconds"),
            ("Sunday, 06-Nov-94 08:59:37 GMT", "10 minutes"),
            ("Sun Nov  6 09:49:37 1994", "1 hour"),
        ])
    func `the next step names the time that the server states`(value: String, span: String) {
        for status in [429, 503] {
            let fields: HTTPFields = [
                .retryAfter: value, .date: "Sun, 06 Nov 1994 08:49:37 GMT",
            ]
            let error = LoginError(.refused(response(status, "", fields).refusal))
            #expect(error.recovery == "Wait \(span), then try again.")
        }
        // Another refusal does not become right after a time.
        let fields: HTTPFields = [.retryAfter: value]
        let refusal = response(400, #"{"error":"invalid_client"}"#, fields).refusal
        #expect(!LoginError(.refused(refusal)).recovery.contains("Wait"))
    }

    @Test(arguments: [
        nil, "", "0", "-5", "+5", "1.5", "soon", "99999999999999999999", "31536001", "1, 2",
        "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 2994 08:49:37 GMT",
    ])
    func `a time that the server does not state validly is not named`(value: String?) {
        var fields: HTTPFields = [.date: "Sun, 06 Nov 1994 08:49:37 GMT"]
        fields[.retryAfter] = value
        let limited = LoginError(.refused(response(429, "", fields).refusal))
        #expect(limited.recovery == "Wait a minute, then try again.")
        let failed = LoginError(.refused(response(503, "", fields).refusal))
        #expect(!failed.recovery.contains("Wait"))
    }

    @Test(arguments: [
        ("2026-01-01T00:05:00Z", 300.0), ("2026-01-01T00:05:00.5Z", 300.5),
        ("2026-01-01T00:01:00.123456789Z", 60.123),
        ("2026-01-01T01:05:00+01:00", 300), ("soon", 300), ("2025-01-01T00:00:00Z", 0),
    ])
    func `a challenge expires when the server says, by the server's clock`(
        expiry: String, life: Double
    ) throws {
        let date = try Date("2026-01-01T00:00:00Z", strategy: .iso8601)
        let body = #"{"result":{"token":"T","expire_at":"\#(expiry)","x":1}}"#
        let envelope = try response(200, body).json(LoginChallenge.Envelope.self)
        let challenge = LoginChallenge(envelope.result, date: date)
        #expect(abs(challenge.life / .seconds(1) - life) < 0.001)
        #expect(challenge.isExpired == (life == 0))
    }
}
