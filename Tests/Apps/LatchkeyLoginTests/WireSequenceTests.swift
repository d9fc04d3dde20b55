import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// What goes over the wire, request by request (authgear.md 2.16).
@Suite(.softwareTPM) struct WireSequenceTests {
    private let discovery = "GET /.well-known/openid-configuration"
    private let challenge = "POST /oauth2/challenge"
    private let biometric = "POST /oauth2/token biometric-request"
    private let userInfo = "GET /oauth2/userinfo"

    @Test func `a login redeems the code, fetches the keys and then the user`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            try await bench.start(transport: wire).authorize()
            #expect(
                wire.summary == [
                    discovery, "POST /oauth2/token authorization_code", "GET /oauth2/jwks",
                    userInfo,
                ])
            let form = wire.recordings[1].form
            #expect(
                Set(form.keys) == [
                    "client_id", "grant_type", "code", "redirect_uri", "code_verifier",
                    "x_device_info",
                ])
            #expect(form["redirect_uri"]?.hasPrefix("http://127.0.0.1:") == true)
            #expect(form["code_verifier"]?.utf8.count == 43)
            let page = try #require(bench.browser.visited.first)
            #expect(page["response_type"] == "code")
            #expect(page["code_challenge_method"] == "S256")
            #expect(
                page["scope"] == "openid offline_access https://authgear.com/scopes/full-access")
            #expect(page["state"]?.utf8.count == 43)
            #expect(page["nonce"]?.utf8.count == 43)
            #expect(page["login_hint"] == nil)
            #expect(page["id_token_hint"] == nil)
        }
    }

    @Test func `enabling asks for a challenge and sends one signed request with the session`()
        async throws
    {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            let key = try await container.enableBiometric()
            #expect(wire.summary.suffix(2) == [challenge, biometric])
            let asked = wire.recordings[wire.recordings.count - 2]
            #expect(asked.text == #"{"purpose":"biometric_request"}"#)
            #expect(asked.request.headerFields[.contentType] == "application/json")
            #expect(asked.request.headerFields[.authorization] == nil)
            let sent = try #require(wire.recordings.last)
            #expect(sent.request.headerFields[.authorization]?.hasPrefix("Bearer access-") == true)
            #expect(Set(sent.form.keys) == ["client_id", "grant_type", "jwt"])
            let (header, payload) = try #require(sent.jwt)
            #expect(Set(header.keys) == ["typ", "alg", "kid", "jwk"])
            #expect(header["kid"] as? String == key.id.rawValue)
            #expect(header["alg"] as? String == "ES256")
            #expect(Set(payload.keys) == ["iat", "exp", "challenge", "action", "device_info"])
            #expect(payload["action"] as? String == "setup")
            let (iat, exp) = (payload["iat"] as? Int ?? 0, payload["exp"] as? Int ?? 0)
            #expect(exp == iat + 60)
        }
    }

    @Test func `enabling refreshes first when there is no fresh access token`() async throws {
        try await Bench.with { bench in
            try await bench.start().authorize()
            let wire = RecordingTransport(forwardingTo: bench.identity)
            try await bench.start(transport: wire).enableBiometric()
            #expect(
                wire.summary == [
                    discovery, "POST /oauth2/token refresh_token", challenge, biometric,
                ])
            #expect(
                Set(wire.recordings[1].form.keys) == [
                    "client_id", "grant_type", "refresh_token", "x_device_info",
                ])
        }
    }

    @Test func `authenticating needs no session and fetches the user with the new token`()
        async throws
    {
        try await Bench.with { bench in
            let first = try await bench.start()
            try await first.authorize()
            try await first.enableBiometric()
            try await first.logout(keepBiometric: true)
            let wire = RecordingTransport(forwardingTo: bench.identity)
            try await bench.start(transport: wire).authenticateBiometric()
            #expect(wire.summary == [discovery, challenge, biometric, userInfo])
            let sent = wire.recordings[2]
            #expect(sent.request.headerFields[.authorization] == nil)
            #expect(
                Set(sent.form.keys) == ["client_id", "grant_type", "jwt", "scope", "x_device_info"])
            #expect(
                sent.form["scope"]
                    == "openid offline_access https://authgear.com/scopes/full-access")
            #expect(sent.form["x_device_info"]?.contains("=") == false)
            let (header, payload) = try #require(sent.jwt)
            #expect(Set(header.keys) == ["typ", "alg", "kid"])
            #expect(payload["action"] as? String == "authenticate")
        }
    }

    @Test func `disabling sends a request to a server with a removal endpoint`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            let key = try await container.enableBiometric()
            let before = wire.recordings.count
            try await container.disableBiometric()
            #expect(
                wire.summary.dropFirst(before) == [
                    discovery, "POST /api/identity/biometric/remove",
                ])
            let sent = try #require(wire.recordings.last)
            #expect(sent.text == #"{"kid":"\#(key.id)"}"#)
            #expect(sent.request.headerFields[.authorization]?.hasPrefix("Bearer access-") == true)
        }
    }

    @Test func `disabling sends no removal to a deployed server`() async throws {
        try await Bench.with(.init(hasRemovalEndpoint: false)) { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            try await container.enableBiometric()
            let before = wire.recordings.count
            try await container.disableBiometric()
            #expect(wire.summary.dropFirst(before) == [discovery])
            #expect(try await !container.isBiometricEnabled())
            await #expect(throws: login(.notEnabled)) { try await container.disableBiometric() }
        }
    }

    @Test func `logging out revokes the refresh token`() async throws {
        try await Bench.with { bench in
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire)
            try await container.authorize()
            let before = wire.recordings.count
            try await container.logout()
            #expect(wire.summary.dropFirst(before) == ["POST /oauth2/revoke"])
            #expect(wire.recordings.last.map { Set($0.form.keys) } == ["token"])
            #expect(await bench.identity.refreshTokens.isEmpty)
        }
    }

    @Test func `reading the state uses neither the server nor the hardware`() async throws {
        try await Bench.with { bench in
            let first = try await bench.start()
            try await first.authorize()
            let key = try await first.enableBiometric()
            let wire = RecordingTransport()
            let container = try await bench.start(transport: wire, keystore: AbsentKeystore())
            #expect(try await container.isBiometricEnabled())
            #expect(try await container.lastUserID == "user-a")
            #expect(try await container.listBiometricKeys().first?.userID == "user-a")
            #expect(try await container.sessionState == .authenticated)
            #expect(try await container.listBiometricKeys().map(\.id) == [key.id])
            #expect(await !container.isBiometricAvailable())
            #expect(wire.recordings.isEmpty)
        }
    }
}
