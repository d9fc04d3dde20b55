import Foundation
import FoundationNetworking
import HTTPTypes
import Latchkey
import LatchkeyCredentials
import LatchkeyCredentialsFoundation
import LatchkeyTesting
import Testing

/// What goes to servers: authorized requests, user data, questions, revocations.
@Suite(.softwareTPM)
struct RequestTests {
    @Test func `a request is authorized with a token that is good`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        var request = HTTPRequest(method: .get, scheme: "https", authority: "api.test", path: "/x")
        try await credential.authorize(&request)
        #expect(request.headerFields[.authorization] == "Bearer access-0")
        scene.clock.advance(3400)
        try await credential.authorize(&request)
        #expect(request.headerFields[.authorization] == "Bearer access-1")
        var foreign = URLRequest(url: try #require(URL(string: "https://api.test/y?z=1")))
        try await credential.authorize(&foreign)
        #expect(foreign.value(forHTTPHeaderField: "Authorization") == "Bearer access-1")
    }

    @Test func `a token that is still good is used although it can't be refreshed`() async throws {
        let scene = try Scene(.init(isUnreachable: true))
        let credential = try await scene.start().store(token: scene.token("t1"))
        scene.clock.advance(3400)
        #expect(try await credential.authorization(for: "https://api.test") == "Bearer access-0")
        scene.clock.advance(300)
        await #expect(throws: unavailable) { try await credential.authorization(for: "https://api.test") }
    }

    @Test func `a token goes to no address that nothing vouches for`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        for address in ["http://api.test/x", "", "ftp://x", "https://user@api.test"] {
            await #expect(throws: refused) { try await credential.authorization(for: address) }
        }
        #expect(try await credential.authorization(for: "http://127.0.0.1:8080/x") == "Bearer access-0")
    }

    @Test func `the user's data are those of the ID token's subject`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        #expect(try await credential.userInfo().name == "Jane")
        #expect(await scene.provider.requests.last?.fields["authorization"] == "Bearer access-0")
        await scene.provider.change { $0.userInfoSubject = "mallory" }
        await #expect(throws: invalidResponse) { try await credential.userInfo() }
    }

    @Test func `the server says whether a token is good`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        #expect(try await credential.introspect(.refreshToken).isActive)
        #expect(try await !credential.introspect().isActive)
        await #expect(throws: missingToken) { try await credential.introspect(.deviceSecret) }
    }

    @Test func `a server that lacks an endpoint is told from one that refuses`() async throws {
        let scene = try Scene(.init(endpoints: []))
        let credential = try await scene.start().store(token: scene.token("t1"))
        await #expect(throws: noEndpoint) { try await credential.userInfo() }
        await #expect(throws: noEndpoint) { try await credential.introspect() }
        await #expect(throws: noEndpoint) { try await credential.revoke() }
        #expect(try credential.store.allIDs() == ["t1"])
    }

    @Test func `a confidential client proves who it is`() async throws {
        let scene = try Scene()
        let store = try await scene.start { $0.clients = ["app": .clientSecret(SecretBytes("s:e%c".utf8))] }
        try await store.store(token: scene.token("t1")).refresh()
        let fields = try #require(await scene.provider.requests.last).fields
        #expect(fields["authorization"] == "Basic \(Data("app:s%3Ae%25c".utf8).base64EncodedString())")
        #expect(fields["client_id"] == nil)
    }

    // MARK: Revoking

    /// What a token has, what is revoked, what the server hears, and whether the credential is gone.
    @Test(
        arguments: [
            (true, true, .all, ["refresh_token", "device_secret", "access_token"], true),
            (true, false, .all, ["refresh_token", "access_token"], true), (false, false, .all, ["access_token"], true),
            (true, false, .accessToken, ["access_token"], false), (false, false, .accessToken, ["access_token"], true),
            (true, true, .refreshToken, ["refresh_token"], true),
            (true, true, .deviceSecret, ["device_secret"], false),
        ] as [(Bool, Bool, Credential.RevokeType, [String], Bool)])
    func `a credential goes when nothing of use is left`(
        hasRefresh: Bool, hasSecret: Bool, type: Credential.RevokeType, heard: [String], isGone: Bool
    ) async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let token = try scene.token(
            "t1", refresh: hasRefresh ? "refresh-0" : nil, more: hasSecret ? ["device_secret": "secret"] : [:])
        try await store.store(token: token).revoke(type: type)
        #expect(await scene.provider.revoked == heard)
        #expect(try store.allIDs() == (isGone ? [] : ["t1"]))
    }

    @Test func `nothing goes that the server does not take back`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        await #expect(throws: missingToken) { try await credential.revoke(type: .deviceSecret) }
        await scene.provider.change { $0.refusal = (400, #"{"error":"invalid_client"}"#) }
        await #expect(throws: oauthError) { try await credential.revoke() }
        #expect(try credential.token.accessToken == "access-0")
        await scene.provider.change { $0.refusal = nil }
        try await scene.withBrokenDisk("DELETE ON record") {
            await #expect(throws: KeystoreError.self) { try await credential.revoke() }
        }
        #expect(try credential.token.accessToken == "access-0")
        try await credential.revoke()
        #expect(try credential.store.allIDs() == [])
    }
}
