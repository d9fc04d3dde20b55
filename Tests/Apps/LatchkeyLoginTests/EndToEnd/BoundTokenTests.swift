import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyLogin

/// Sessions whose tokens the real server binds to a key in the TPM (RFC 9449).
@Suite(.softwareTPM) struct BoundTokenTests {
    /// A keystore without keys that sign without user verification.
    private struct NoOpenKeys: KeystoreWrapper {
        let keystore: any Keystore

        func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority)
            async throws(KeystoreError) -> HardwareKey
        {
            guard request.policy != .none else {
                throw .unsupported("there are no such keys", recovery: "Use a TPM.")
            }
            return try await keystore.createKey(request, authorizedBy: presence)
        }
    }

    /// Counts the signatures of keys without user verification.
    private struct CountingKeystore: KeystoreWrapper {
        final class Count: Sendable {
            let value = Mutex(0)
        }

        let keystore: any Keystore
        let count: Count

        func sign(
            _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
            authorizedBy presence: any PresenceAuthority
        ) async throws(KeystoreError) -> ECDSASignature {
            if key.policy == .none { count.value.withLock { $0 += 1 } }
            return try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
        }
    }

    @Test(arguments: [TokenStorage.persistent, .memory])
    func `the whole life of a bound session`(storage: TokenStorage) async throws {
        try await IdentityProcess.with(client: ["dpop": "access_tokens"]) { server in
            let machine = try await Machine(server)
            let first = try await machine.start(storage: storage)
            let user = try await first.authorize().userInfo
            try await first.enableBiometric()
            #expect(
                try machine.proven() == [
                    "POST /oauth2/token", "GET /oauth2/userinfo", "POST /oauth2/token",
                ])
            let second = try await machine.start(storage: storage)
            #expect(try await second.authenticateBiometric().userInfo == user)
            #expect(try await second.fetchUserInfo() == user)
            try await second.disableBiometric()
            try await second.logout()
            #expect(try await second.sessionState == .noSession)
            let key = try await second.records.metadata(LoginRows.dpopID)
            #expect((key == nil) == (storage == .persistent))
            try await machine.start(storage: storage).authorize()
        }
    }

    @Test func `with bound refresh tokens, only requests for tokens need a signature`() async throws
    {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            let count = CountingKeystore.Count()
            let start = {
                try await machine.start(wrapping: { CountingKeystore(keystore: $0, count: count) })
            }
            try await start().authorize()
            let second = try await start()
            _ = try await second.fetchUserInfo()
            _ = try await second.fetchUserInfo()
            #expect(try machine.proven() == ["POST /oauth2/token", "POST /oauth2/token"])
            #expect(count.value.withLock(\.self) == 2)
        }
    }

    @Test func `a stolen refresh token is useless on another machine`() async throws {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            let session = try await container.rows.session(for: container.sessionPrompt)
            let stolen = try #require(session).refreshToken
            let transport = CurlTransport()
            let connection = ServerConnection<LoginErrorCode>(transport: transport)
            let metadata = try await ProviderMetadata.read(at: server.endpoint, over: connection)
            // Without a key, and with the key of another TPM.
            let without = OAuthClient<LoginErrorCode>(
                metadata, clientID: server.clientID, over: connection)
            await #expect(throws: login(.refused)) { try await without.refresh(stolen.text) }
            let other = try await SimulatedKey.make()
            let prover = DPoPProver(DPoPKey(other.key, in: other.keystore, now: { Date() }))
            let with = OAuthClient<LoginErrorCode>(
                metadata, clientID: server.clientID,
                over: ServerConnection(transport: transport, prover: prover))
            let error = await #expect(throws: LoginError.self) {
                try await with.refresh(stolen.text)
            }
            #expect(error?.oauthError?.error == "invalid_grant")
            // The owner's session continues.
            #expect(try await machine.start().fetchUserInfo().userID == session?.userID)
        }
    }

    @Test func `a server that does not announce it gets no proof`() async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            try await container.enableBiometric()
            try await container.authenticateBiometric()
            _ = try await machine.start().fetchUserInfo()
            #expect(try machine.proven().isEmpty)
            #expect(machine.wire.recordings.allSatisfy { !$0.text.contains("dpop") })
            #expect(try await container.records.metadata(LoginRows.dpopID) == nil)
        }
    }

    @Test func `a nonce costs one more request, and only the first time`() async throws {
        try await IdentityProcess.with(
            client: ["dpop": "access_tokens"], ["dpop_nonce_required": true]
        ) { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            _ = try await container.fetchUserInfo()
            #expect(
                try machine.proven() == [
                    "POST /oauth2/token", "POST /oauth2/token", "GET /oauth2/userinfo",
                    "GET /oauth2/userinfo",
                ])
        }
    }

    @Test func `a server that always requires another nonce gets two requests`() async throws {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            let metadata = try await container.server().metadata
            let key = try await SimulatedKey.make()
            let name = try #require(HTTPField.Name("DPoP-Nonce"))
            func demand(_ nonce: String) -> RecordingTransport.Step {
                var response = HTTPResponse(status: .badRequest)
                response.headerFields[name] = nonce
                return .respond(response, Array(#"{"error":"use_dpop_nonce"}"#.utf8))
            }
            for (nonces, expected) in [(["one", "two", "three"], 2), (["", "", ""], 1)] {
                let wire = RecordingTransport(nonces.map(demand))
                let prover = DPoPProver(DPoPKey(key.key, in: key.keystore, now: { Date() }))
                let client = OAuthClient(
                    metadata, clientID: "app",
                    over: ServerConnection<LoginErrorCode>(transport: wire, prover: prover))
                await #expect(throws: login(.oauthError)) { try await client.refresh("token") }
                #expect(wire.recordings.count == expected)
            }
        }
    }

    @Test func `without its key a session ends with an error, and a new login gets a new key`()
        async throws
    {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            let first = try await machine.start()
            try await first.authorize()
            let key = try #require(try await first.records.metadata(LoginRows.dpopID)?.key)
            try await first.rows.apply(
                [.delete(LoginRows.dpopID, ifGeneration: nil)], for: first.sessionPrompt)
            let second = try await machine.start()
            let error = await #expect(throws: login(.unauthenticated)) {
                try await second.fetchUserInfo()
            }
            #expect(error?.reason.contains("key") == true)
            try await second.authorize()
            let other = try #require(try await second.records.metadata(LoginRows.dpopID)?.key)
            #expect(other.id != key.id)
            #expect(try await !machine.start().fetchUserInfo().userID.isEmpty)
        }
    }

    @Test func `hardware without open keys has unbound sessions, unless the server requires a key`()
        async throws
    {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            let container = try await machine.start(wrapping: { NoOpenKeys(keystore: $0) })
            let error = await #expect(throws: login(.refused)) { try await container.authorize() }
            #expect(error?.reason.contains("DPoP") == true)
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test(arguments: [-7_200.0, 7_200])
    func `a wrong clock is named`(offset: TimeInterval) async throws {
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let machine = try await Machine(server)
            try await machine.start().authorize()
            let wrong = try await machine.start(now: { Date().addingTimeInterval(offset) })
            await #expect(throws: login(.clockSkew)) { try await wrong.fetchUserInfo() }
            #expect(try await !machine.start().fetchUserInfo().userID.isEmpty)
        }
    }

    @Test func `the app's own request gets a token and a proof`() async throws {
        try await IdentityProcess.with(client: ["dpop": "access_tokens"]) { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            let endpoint = try #require(Endpoint(server.endpoint + "/oauth2/userinfo"))
            var request = endpoint.request(.post)
            try await container.authorizeRequest(&request)
            #expect(request.headerFields[.authorization]?.hasPrefix("DPoP ") == true)
            #expect(try await CurlTransport().send(request, body: []).0.status == .ok)
            // A proof is for one request.
            #expect(try await CurlTransport().send(request, body: []).0.status == .unauthorized)
            var plain = HTTPRequest(
                method: .get, scheme: "http", authority: "example.com", path: "/")
            await #expect(throws: login(.invalidInput)) {
                try await container.authorizeRequest(&plain)
            }
        }
    }
}

extension Machine {
    /// The requests with a proof, as `METHOD path`.
    fileprivate func proven() throws -> [String] {
        let name = try #require(HTTPField.Name("DPoP"))
        return wire.recordings.compactMap {
            $0.request.headerFields[name] == nil
                ? nil : "\($0.request.method) \($0.request.path ?? "")"
        }
    }
}

/// A key in the test's TPM.
struct SimulatedKey {
    let key: HardwareKey
    let keystore: any Keystore

    static func make() async throws -> SimulatedKey {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: PromptContext(reason: "test")),
            authorizedBy: NobodyPresent())
        return SimulatedKey(key: key, keystore: keystore)
    }
}
