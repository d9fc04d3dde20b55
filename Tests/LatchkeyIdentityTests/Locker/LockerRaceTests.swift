import Foundation
import GRDB
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTesting
import Testing

@testable import latchkey_identity

@Suite("Locker, at once") struct LockerRaceTests {
    @Test(arguments: TestServer.lockerActions.dropLast())
    func `of many requests with one challenge, one succeeds`(action: String) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let challenge = try await server.challenge("locker_request")
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 1...6 {
                    let assertion = try device.signer(of: action).assertion(
                        action, audience: server.origin, enrolment: action == "enrol" ? nil : device.id,
                        challenge: challenge, now: server.time.seconds)
                    group.addTask {
                        try await server.send(assertion, as: action, to: device.id, bearer: device.tokens.access).status
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.filter { (200...204).contains($0) }.count == 1)
            #expect(statuses.filter { $0 == 400 }.count == 5)
        }
    }

    @Test func `of two processes on one database, one takes the challenge`() async throws {
        try await inDirectory { directory in
            let path = directory.appending(path: "identity.sqlite").path()
            let clock = TestClock()
            let servers = try await [services(path, clock), services(path, clock)]
            let registry = try #require(servers[0].locker).registry
            let key = LockerTestKey()
            let enrolment = LockerEnrolment(
                userID: "alice", clientID: "app",
                deviceKey: LockerKey(kid: try #require(KeyID(rawValue: key.kid)), publicKey: try key.publicKey),
                info: try #require(DeviceInfo(LockerTestKey.deviceInfo)), createdAt: clock.clock.now)
            try await registry.add(enrolment, shares: .random())
            for _ in 1...10 {
                let challenge = try await servers[0].challenges.issue(.lockerRequest).token
                let request = try LockerRequest(
                    key.assertion(
                        "background-access", audience: "https://id.example", enrolment: enrolment.id,
                        challenge: challenge, now: clock.seconds))
                let accepted = try await withThrowingTaskGroup(of: Bool.self) { group in
                    for server in servers {
                        let verifier = try #require(server.locker).verifier
                        group.addTask {
                            do {
                                _ = try await verifier.verifyBackgroundAccess(request, audience: "https://id.example")
                                return true
                            } catch let error as LockerRequestError {
                                #expect(error.code == .challengeRejected)
                                return false
                            }
                        }
                    }
                    return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
                }
                #expect(accepted == 1)
            }
            // Both open the shares, with one key between them.
            let shares = try await servers.map(\.locker).asyncMap {
                try await $0?.registry.levelShares(of: enrolment.id)
            }
            #expect(shares[0] != nil && shares[0] == shares[1])
        }
    }

    @Test func `a grant for an enrolment that has gone meanwhile is not stored`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let locker = try #require(server.services.locker)
            let enrolment = try #require(try await locker.registry.enrolment(id: device.id))
            try await locker.registry.remove(id: device.id)
            let endpoint = TokenEndpoint(services: server.services)
            let client = server.services.configuration.clients[0]
            for proof in [GrantProof.easyAccess(enrolment), .background(enrolment)] {
                let grant = endpoint.grant(
                    proof, user: server.alice, client: client, scope: "openid", authTime: 0, deviceInfo: nil)
                let tokens = try await endpoint.tokens(for: grant, user: server.alice, client: client)
                #expect(try await !server.services.grants.insert(grant, tokens: tokens))
                #expect(try await server.userInfo(tokens.accessToken).status == 401)
            }
        }
    }

    private func services(_ path: String, _ clock: TestClock) async throws -> IdentityServices {
        try await IdentityServices(
            TestServer.configuration, database: IdentityDatabase.open(path: path),
            hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)), clock: clock.clock)
    }

    private func inDirectory(_ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "identity-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await body(directory)
    }
}

extension Array {
    fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}
