import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Login with a token instead of a TPM, against the real server over real HTTP: nothing above the
/// keystore notices.
@Suite(.timeLimit(.minutes(15))) struct TokenLoginTests {
    @Test(.requires(program: "softhsm2-util"))
    func `the whole life of a device on SoftHSM2`() async throws {
        let token = try await SoftwareToken(label: "Login")
        try await wholeLife(
            LoginToken(keystore: PKCS11Keystore(uri: token.uri), pin: token.userPIN))
    }

    @Test(.requires(program: "softhsm2-util"))
    func `the whole life of a device on a token with a fingerprint sensor`() async throws {
        try await wholeLife(LoginToken(FingerprintToken()))
    }

    /// The login key is in slot 9a and requires the PIN. The key in slot 9e, which does not, seals
    /// the stored records.
    @Test(.virtualYubiKey, arguments: ["libykcs11.so", "opensc-pkcs11.so"])
    func `the whole life of a device on a YubiKey with an existing key`(_ module: String)
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        for slot in [KeySlot.authentication, .cardAuthentication] {
            try await yubiKey.provision(slot)
        }
        // Modules keep their first connection to pcscd; a copy of the module has none.
        let directory = try TemporaryDirectory()
        let original = URL(filePath: "/usr/lib/x86_64-linux-gnu/\(module)")
            .resolvingSymlinksInPath()
        try FileManager.default.copyItem(atPath: original.path, toPath: directory.path(of: module))
        let onCard = try PKCS11Keystore(
            uri: "pkcs11:id=%01?module-path=\(directory.path(of: module))")
        try await wholeLife(LoginToken(keystore: onCard, pin: CardProfile.defaultPIN))
    }

    /// tpm2-pkcs11 has no key without a PIN, so the PIN seals the stored records too. Opening the
    /// store and signing share one prompt. A login without biometrics prompts once, when the store
    /// is created.
    @Test(
        .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
        .requires(program: "pkcs11-tool"))
    func `the whole life of a device on a token in a TPM`() async throws {
        try await SoftwareTPMToken.withToken { token in
            let options = TokenOptions(isolation: .always, environment: token.environment)
            let onTPM = try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
            var person = LoginToken(keystore: onTPM, pin: token.userPIN)
            person.proofsToAuthorize = 1
            try await wholeLife(person)
        }
    }

    private func container(
        _ token: LoginToken, _ presence: ScriptedPresence, at server: IdentityProcess,
        in directory: TemporaryDirectory
    ) async throws -> Container {
        try await Container(
            ContainerConfiguration(
                endpoint: server.endpoint, clientID: server.clientID, policy: token.policy),
            records: RecordContainer(
                store: RecordStore(directory: directory.path), keystore: token.keystore),
            presence: presence, browser: FormBrowser(server.users[0]))
    }

    /// Enables, authenticates in another process' place, refuses a stranger, disables.
    private func wholeLife(_ token: LoginToken) async throws {
        try await IdentityProcess.with { server in
            let directory = try TemporaryDirectory()
            let owner = token.owner(token.proofsToAuthorize + token.proofsToEnable)
            let first = try await container(token, owner, at: server, in: directory)
            let user = try await first.authorize().userInfo
            #expect(owner.asked.count == token.proofsToAuthorize)
            let key = try await first.enableBiometric()
            #expect(owner.asked.count == token.proofsToAuthorize + token.proofsToEnable)
            try await first.logout(keepBiometric: true)

            let stranger = try await container(token, token.stranger(), at: server, in: directory)
            await #expect(throws: keystore(.wrongProof)) {
                try await stranger.authenticateBiometric()
            }
            #expect(try await stranger.sessionState == .noSession)

            let second = try await container(token, token.owner(1), at: server, in: directory)
            #expect(try await second.isBiometricEnabled())
            let result = try await second.authenticateBiometric()
            #expect(result.userInfo == user)
            #expect(result.keyID == key.id)
            #expect(try await second.fetchUserInfo().userID == user.userID)

            try await second.disableBiometric()
            #expect(try await !second.isBiometricEnabled())
            try await second.logout()
            #expect(try await second.lastUserID == user.userID)
        }
    }
}
