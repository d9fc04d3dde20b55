import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@Suite(.softwareToken, .requires(program: "pkcs11-tool")) struct `A software token` {
    private static let seen = Mutex<Set<String>>([])

    @Test(arguments: 0..<12) func `is different in each test case`(_ number: Int) throws {
        let token = try SoftwareToken.current
        let isNew = Self.seen.withLock { seen in
            seen.insert(token.serial).inserted && seen.insert(token.modulePath).inserted
        }
        #expect(isNew)
        #expect(
            token.uri
                == "pkcs11:token=Latchkey;serial=\(token.serial)?module-path=\(token.modulePath)")
    }

    @Test func `works in other programs with its PIN`() async throws {
        let token = try SoftwareToken.current
        let listing = try await pkcs11Tool(token, "--login", "--pin", "correct", "--list-objects")
        #expect(listing.isSuccess, "\(listing.text)")
        let refusal = try await pkcs11Tool(token, "--login", "--pin", "wrong one", "--list-objects")
        #expect(refusal.text.contains("CKR_PIN_INCORRECT"))
    }

    @Test func `in its own directory is visible only with its environment`() async throws {
        let inherited = try SoftwareToken.current
        let token = try await SoftwareToken(label: "läbel;x", placement: .ownDirectory)
        #expect(token.environment != inherited.environment)
        #expect(
            token.uri.hasPrefix(
                "pkcs11:token=l%C3%A4bel%3Bx;serial=\(token.serial)?module-path=/usr/"))
        let listing = try await pkcs11Tool(token, "--login", "--pin", "123456", "--list-objects")
        #expect(listing.isSuccess, "\(listing.text)")
    }

    private func pkcs11Tool(_ token: SoftwareToken, _ arguments: String...) async throws
        -> SystemProgram.Outcome
    {
        try await SystemProgram("pkcs11-tool", environment: token.environment)
            .result(of: ["--module", token.modulePath, "--token-label", token.label] + arguments)
    }
}
