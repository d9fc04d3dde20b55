import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The protocol's tables of assertions and errors, over HTTP.
@Suite("Locker, refusals") struct LockerRefusalTests {
    @Test(arguments: TestServer.lockerActions)
    func `a flawed assertion is refused and does not use the challenge`(
        action: String
    ) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            for flaw in LockerFlaw.allCases where flaw.applies(to: action) {
                let key = device.signer(of: action)
                let challenge = try await server.lockerChallenge(for: action)
                let enrolment = action == "enrol" ? nil : device.id
                let bearer = try await server.login().access
                let flawed = try flaw.assertion(
                    key, action, audience: server.origin, enrolment: enrolment,
                    challenge: challenge,
                    now: server.time.seconds)
                try await server.send(flawed, as: action, to: device, bearer: bearer)
                    .expectNotAccepted(flaw.rawValue)
                // A revocation would delete the device.
                guard action != "revoke" else { continue }
                let good = try key.assertion(
                    action, audience: server.origin, enrolment: enrolment, challenge: challenge,
                    now: server.time.seconds)
                let answer = try await server.send(good, as: action, to: device, bearer: bearer)
                #expect(
                    (200...204).contains(answer.status),
                    "\(flaw) took the challenge: \(answer.body)")
                if action == "easy-access-enable" {
                    try await server.disableEasyAccess(of: device, key: key.kid).expectDone()
                }
            }
            #expect(try await server.revoke(device).status == 204)
        }
    }

    @Test(arguments: TestServer.lockerActions)
    func `an assertion for one action is refused for another`(
        action: String
    ) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            for other in TestServer.lockerActions where other != action {
                let assertion = try await server.assertion(
                    other, by: device.signer(of: other), of: other == "enrol" ? nil : device.id)
                try await server.send(
                    assertion, as: action, to: device, bearer: device.tokens.access
                )
                .expectNotAccepted("\(other) as \(action)")
            }
        }
    }

    @Test(arguments: TestServer.lockerActions.dropLast())
    func `a challenge is valid once, for 300 seconds, for its purpose`(action: String) async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let key = device.signer(of: action)
            let enrolment = action == "enrol" ? nil : device.id
            func send(_ challenge: String) async throws -> Answer {
                let assertion = try key.assertion(
                    action, audience: server.origin, enrolment: enrolment, challenge: challenge,
                    now: server.time.seconds)
                return try await server.send(
                    assertion, as: action, to: device, bearer: server.login().access)
            }
            let (expired, late) = (
                try await server.challenge("locker_request"),
                try await server.challenge("locker_request")
            )
            server.time.advance(by: 299)
            #expect((200...204).contains(try await send(late).status))
            try await send(late).expectNotAccepted("used")
            server.time.advance(by: 1)
            try await send(expired).expectNotAccepted("expired")
            try await send(server.challenge("biometric_request")).expectNotAccepted(
                "for another purpose")
            try await send("0123456789ABCDEFGHJKMNPQRSTVWXYZ").expectNotAccepted("unknown")
        }
    }

    @Test func `a challenge of the locker is refused elsewhere`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let jwt = try TestDevice().setup(
                challenge: await server.challenge("locker_request"), now: server.time.seconds)
            try await server.biometric(jwt, bearer: bearer).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test(arguments: TestServer.lockerActions)
    func `a wrong signature is refused and revokes nothing`(
        action: String
    ) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let key = device.signer(of: action)
            let challenge = try await server.lockerChallenge(for: action)
            let enrolment = action == "enrol" ? nil : device.id
            let draft = key.draft(
                action, audience: server.origin, enrolment: enrolment, challenge: challenge,
                now: server.time.seconds)
            let forged = try key.impostor.sign(header: draft.header, payload: draft.payload)
            let bearer = device.tokens.access
            try await server.send(forged, as: action, to: device, bearer: bearer)
                .expectNotAccepted()
            if action != "revoke" {
                let late = try key.sign(header: draft.header, payload: draft.payload)
                try await server.send(late, as: action, to: device, bearer: bearer)
                    .expectNotAccepted("used up")
            }
            try await server.easyAccess(device).success()
            try await server.backgroundAccess(device).success()
        }
    }

    @Test(arguments: [
        "enrol", "easy-access-enable", "easy-access-disable", "level-shares", "revoke",
    ])
    func `a body must be an object with the required members`(action: String) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let path =
                switch action {
                case "enrol": TestServer.lockerPath
                case "easy-access-enable": "\(TestServer.lockerPath)/\(device.id)/easy-access"
                case "easy-access-disable":
                    "\(TestServer.lockerPath)/\(device.id)/easy-access/disable"
                default: "\(TestServer.lockerPath)/\(device.id)/\(action)"
                }
            for (json, type, cause) in [
                ("{}", "application/json", "'assertion' is missing"),
                (#"{"assertion":7}"#, "application/json", "'assertion' has the wrong type"),
                ("[]", "application/json", "the JSON has the wrong type"),
                ("x", "application/json", "the text is not valid JSON"),
                (
                    #"{"assertion":"x"}"#, "text/plain",
                    "the content type is not application/json"
                ),
            ] {
                try await server.post(path, json: json, bearer: device.tokens.access, type: type)
                    .expectRefusal(400, "invalid_request", "invalid request body: " + cause)
            }
            // Unknown members are ignored.
            let more = try await server.post(
                path, json: #"{"assertion":"x","more":1}"#, bearer: device.tokens.access)
            if action == "easy-access-enable" {
                try more.expectRefusal(400, "invalid_request", "device_signature is required")
            } else {
                try more.expectNotAccepted()
            }
            let long = #"{"assertion":"\#(String(repeating: "x", count: 70_000))"}"#
            try await server.post(path, json: long, bearer: device.tokens.access)
                .expectRefusal(413, "invalid_request", "the request is too long")
        }
    }

    @Test(arguments: [TestServer.easyAccessGrant, TestServer.backgroundGrant])
    func `a token request requires an assertion and a known client`(grant: String) async throws {
        try await TestServer.run { server in
            let form = ["client_id": "app", "grant_type": grant]
            try await server.post("/oauth2/token", form: form)
                .expectRefusal(400, "invalid_request", "assertion is required")
            try await server.post(
                "/oauth2/token", form: form.merging(["client_id": "nobody"]) { $1 }
            )
            .expectRefusal(400, "invalid_client", "invalid client ID")
        }
    }
}
