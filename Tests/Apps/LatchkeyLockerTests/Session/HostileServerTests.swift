import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeyTesting
import Testing

/// Answers of a malicious server.
@Suite(.softwareTPM)
struct HostileServerTests {
    private static let revoked = #"{"error":"enrolment_revoked"}"#

    /// A program whose user is enrolled.
    private func enrolled(_ scene: Scene) async throws -> [ProtectionLevel: String] {
        let program = try await scene.start()
        _ = try await program.locker.startAuthSession()
        return program.sealAll()
    }

    @Test(arguments: ["enrolment_revoked", "easy_access_revoked"])
    func `an error from the browser ends no enrolment`(code: String) async throws {
        try await Scene.with { scene in
            let texts = try await enrolled(scene)
            let program = try await scene.start()
            let channel = RefusedChannel(code: code)
            await #expect(throws: refusal(.server)) {
                try await program.locker.startAuthSession(
                    options: .init(requiredLevel: .strong, channel: channel.authorize))
            }
            #expect(program.locker.authSessionStatus.isEasyAccessEnabled)
            _ = try await program.locker.startAuthSession()
            #expect(program.readable(texts) == Set(texts.keys))
        }
    }

    private struct RefusedChannel: StrongAuthenticationChannel {
        let code: String

        func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode {
            throw AuthorizationFailure.refused(OAuth2Error(error: code))
        }
    }

    /// Endpoints outside the locker protocol, and locker endpoints with another status.
    @Test(
        arguments: [
            ("openid-configuration", 500, RequiredLevel.any), ("/challenge", 429, .any),
            ("/challenge", 401, .any),
            ("/token", 400, .any), ("/token", 503, .any), ("/token", 401, .strong),
            ("/jwks", 401, .strong),
            ("/level-shares", 400, .strong),
        ])
    func `only the locker's endpoints end an enrolment`(
        path: String, status: Int, level: RequiredLevel
    ) async throws {
        try await Scene.with { scene in
            let texts = try await enrolled(scene)
            let program = try await scene.start()
            scene.line.fail(at: path, .answer(status: status, body: Self.revoked))
            await #expect(throws: refusal(.server)) {
                try await program.locker.startAuthSession(options: .init(requiredLevel: level))
            }
            #expect(program.phase == .enrolled)
            _ = try await program.locker.startAuthSession()
            #expect(program.readable(texts) == Set(texts.keys))
        }
    }

    @Test(arguments: [("/token", RequiredLevel.any), ("/level-shares", .strong)])
    func `a revocation from a locker endpoint ends the enrolment`(
        path: String, level: RequiredLevel
    ) async throws {
        try await Scene.with { scene in
            _ = try await enrolled(scene)
            let program = try await scene.start()
            scene.line.fail(at: path, .answer(status: 401, body: Self.revoked))
            await #expect(throws: refusal(.enrolmentRevoked)) {
                try await program.locker.startAuthSession(options: .init(requiredLevel: level))
            }
            #expect(program.phase == .unregistered)
        }
    }

    @Test func `a background token with more scopes than offered is refused`() async throws {
        try await Scene.with { scene in
            _ = try await enrolled(scene)
            let program = try await scene.start()
            scene.line.fail(
                at: "/token",
                .altered("\"scope\":\"", to: "\"scope\":\"https://authgear.com/scopes/full-access ")
            )
            let error = await #expect(throws: BackgroundAccessError.self) {
                try await program.locker.backgroundAccess()
            }
            #expect(error?.code == .server)
            #expect(program.phase == .enrolled)
            #expect(try await program.locker.backgroundAccess().phase == .backgroundAccess)
        }
    }

    @Test func `easy access without a requested ID token is refused`() async throws {
        try await Scene.with { scene in
            _ = try await enrolled(scene)
            let program = try await scene.start()
            scene.line.fail(at: "/token", .altered("\"id_token\"", to: "\"no_token\""))
            await #expect(throws: refusal(.server)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test(
        arguments: [
            (#""auth_time":1000"#, 0.0, 1000.0), (#""auth_time":940"#, 0, 940),
            (#""auth_time":939"#, 0, nil),
            (#""auth_time":900"#, 40, 900), (#""auth_time":899"#, 40, nil),
            (#""auth_time":900"#, -40, nil),
            (#""x":1"#, 0, nil),
        ])
    func `a login is checked against the time of its request`(
        member: String, elapsed: Double, loggedInAt: Double?
    )
        throws
    {
        let payload =
            #"{"iss":"https://id.example","sub":"u","aud":"c","exp":1300,"iat":1000,\#(member)}"#
        let token = try IDToken(
            ReceivedJWS("e30.\(Base64URL.encode(Data(payload.utf8))).AA"))
        let verifier = IDTokenValidator(issuer: "https://id.example", clientID: "c")
        // This machine's clock is an hour ahead.
        let now = Date(timeIntervalSince1970: 4600)
        let check = {
            try verifier.checkLogin(token, since: now.addingTimeInterval(-elapsed), now: now)
        }
        if let loggedInAt {
            #expect(try check().timeIntervalSince1970 == 3600 + loggedInAt)
        } else {
            #expect(throws: IDTokenFlaw.login) { try check() }
        }
    }
}
