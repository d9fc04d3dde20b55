import Foundation
import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Locker, concurrent requests") struct LockerRaceTests {
    @Test(arguments: TestServer.lockerActions.dropLast())
    func `of concurrent requests with one challenge, one succeeds`(action: String) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let challenge = try await server.challenge("locker_request")
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 1...6 {
                    let assertion = try device.signer(of: action).assertion(
                        action, audience: server.origin,
                        enrolment: action == "enrol" ? nil : device.id,
                        challenge: challenge, now: server.time.seconds)
                    group.addTask {
                        try await server.send(
                            assertion, as: action, to: device, bearer: device.tokens.access
                        ).status
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.filter { (200...204).contains($0) }.count == 1)
            #expect(statuses.filter { $0 == 400 }.count == 5)
        }
    }

    @Test func `of two processes on one database, one can use the challenge`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(
                #"{"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}]}"#
                    .utf8
            ).write(to: URL(filePath: config))
            let (database, storage) = try await IdentityProcess.storage(in: directory)
            let arguments = ["--config", config, "--port", "0"] + storage
            let processes = [
                try await IdentityProcess(arguments), try await IdentityProcess(arguments),
            ]
            try await TestServer.lend(processes[0], database: database) { one in
                try await TestServer.lend(processes[1], database: database) { two in
                    let device = try await one.enrolledDevice()
                    for _ in 1...5 {
                        let challenge = try await one.challenge("locker_request")
                        let assertions = try [one, two].map {
                            try device.key.assertion(
                                "background-access", audience: $0.origin, enrolment: device.id,
                                challenge: challenge,
                                now: $0.time.seconds)
                        }
                        async let first = one.send(
                            assertions[0], as: "background-access", to: device)
                        async let second = two.send(
                            assertions[1], as: "background-access", to: device)
                        let answers = try await [first, second]
                        #expect(answers.map(\.status).sorted() == [200, 400])
                        try answers.first { $0.status == 400 }?.expectNotAccepted()
                    }
                    // One process opens the shares that the other sealed, and does not find an
                    // enrolment that the other deleted.
                    #expect(
                        try await two.easyAccess(device).success()["level_shares"] == device.shares)
                    try await two.revoke(device).expectDone()
                    try await one.easyAccess(device).expectRevoked()
                }
            }
            for process in processes { #expect(await process.stop() == 0) }
        }
    }

    @Test func `a grant is not stored if its enrolment was deleted during the request`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let locker = server.services.locker
            let enrolment = try #require(try await locker.registry.enrolment(id: device.id))
            try await locker.registry.remove(enrolment)
            let endpoint = TokenEndpoint(services: server.services)
            let client = server.services.configuration.clients[0]
            let key = enrolment.easyAccessKeys[0]
            for proof in [GrantProof.easyAccess(enrolment, key), .background(enrolment)] {
                let grant = endpoint.grant(
                    proof, userID: server.alice.id, client: client, scope: "openid", authTime: 0,
                    keyThumbprint: nil)
                let tokens = endpoint.firstTokens(of: grant, client)
                let error = await #expect(throws: LockerRequestError.self) {
                    try await server.services.grants.insert(
                        grant, provenBy: proof, tokens: tokens)
                }
                #expect(error?.code == .enrolmentRevoked)
                #expect(try await server.userInfo(tokens.access).status == 401)
            }
        }
    }
}
