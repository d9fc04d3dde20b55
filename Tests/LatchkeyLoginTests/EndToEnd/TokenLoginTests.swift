import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Login with a token instead of a TPM, against the real server over real HTTP: nothing above the keystore notices.
@Suite(.requires(program: "softhsm2-util"), .requires(program: "tpm2-abrmd"), .timeLimit(.minutes(1)))
struct TokenLoginTests {
    @Test(arguments: LoginToken.allCases)
    func `the whole life of a device with a token`(_ kind: LoginToken) async throws {
        try await IdentityProcess.with { server in
            try await kind.withMachine { machine in
                let directory = try TemporaryDirectory()
                func start(_ presence: ScriptedPresence) async throws -> Container {
                    let store = try await RecordStore(directory: directory.path)
                    return try Container(
                        ContainerConfiguration(
                            endpoint: server.endpoint, clientID: server.clientID, policy: machine.policy),
                        records: RecordContainer(store: store, keystore: machine.keystore),
                        presence: presence, browser: FormBrowser(server.users[0]))
                }
                let owner = machine.owner(1)
                let first = try await start(owner)
                let user = try await first.authorize().userInfo
                let key = try await first.enableBiometric()
                #expect(owner.asked.count == 1, "the birth of a key takes one proof")
                try await first.logout(keepBiometric: true)

                let stranger = try await start(machine.stranger())
                await #expect(throws: keystore(.wrongProof)) { try await stranger.authenticateBiometric() }
                #expect(try await stranger.sessionState == .noSession)

                let second = try await start(machine.owner(1))
                #expect(try await second.isBiometricEnabled)
                let result = try await second.authenticateBiometric()
                #expect(result.userInfo == user)
                #expect(result.keyID == key.id)
                #expect(try await second.fetchUserInfo().userID == user.userID)

                try await second.disableBiometric()
                #expect(try await !second.isBiometricEnabled)
                try await second.logout()
                #expect(try await second.lastUserID == user.userID)
            }
        }
    }
}
