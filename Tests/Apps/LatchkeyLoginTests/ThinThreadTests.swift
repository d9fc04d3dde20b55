import Latchkey
import LatchkeyLogin
import LatchkeyTesting
import Testing

@Suite(.softwareTPM) struct ThinThreadTests {
    @Test func `a user logs in, enables, comes back, authenticates and disables`() async throws {
        try await Bench.with { bench in
            let first = try await bench.start()
            #expect(try await first.sessionState == .noSession)
            let login = try await first.authorize()
            #expect(login.userInfo.userID == "user-a")
            #expect(try await first.lastUserID == "user-a")
            let key = try await first.enableBiometric()
            #expect(await bench.identity.identities.keys.sorted() == [key.id.rawValue])
            try await first.logout(keepBiometric: true)
            let second = try await bench.start()
            #expect(try await second.sessionState == .noSession)
            #expect(try await second.isBiometricEnabled())
            let again = try await second.authenticateBiometric()
            #expect(again.userInfo.userID == "user-a")
            #expect(again.keyID == key.id)
            try await second.disableBiometric()
            #expect(try await !second.isBiometricEnabled())
            #expect(await bench.identity.identities.isEmpty)
        }
    }
}
