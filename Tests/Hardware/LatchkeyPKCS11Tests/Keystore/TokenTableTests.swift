import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SwiftASN1
import Testing
import VirtualSmartCard
import X509

@testable import LatchkeyPKCS11

/// The table of modules and tokens in the article TokensAndYubiKeys. The tests run the real
/// modules.
@Suite(.timeLimit(.minutes(15)))
struct TokenTableTests {
    @Test(.softwareToken, .requires(program: "softhsm2-util")) func `SoftHSM2`() async throws {
        let token = try SoftwareToken.current
        let user = TokenUser(pin: token.userPIN, newPIN: "another")
        try await expectRow("SoftHSM2", "SoftHSM2", user.cells(PKCS11Keystore(uri: token.uri)))
    }

    @Test(.softwareToken, .requires(program: "softhsm2-util"), .requires(program: "p11-kit"))
    func `SoftHSM2 behind a server of p11-kit`() async throws {
        let token = try SoftwareToken.current
        try await ForwardedToken.withServer(for: token) { forwarded in
            let options = PKCS11Options(
                token: TokenOptions(
                    isolation: .always, environment: forwarded.environment, deadlines: .hangLimit))
            let user = TokenUser(pin: token.userPIN, newPIN: "another", options: options)
            try await expectRow(
                "p11-kit client", "SoftHSM2 behind `p11-kit server`",
                user.cells(PKCS11Keystore(uri: forwarded.uri, options: options)))
        }
    }

    @Test(
        .requires(program: "swtpm"), .requires(program: "tpm2-abrmd"),
        .requires(program: "pkcs11-tool"),
        .requires(program: "p11-kit"))
    func `tpm2-pkcs11`() async throws {
        try await SoftwareTPMToken.withToken { token in
            let options = PKCS11Options(
                token: TokenOptions(
                    isolation: .always, environment: token.environment, deadlines: .hangLimit))
            let user = TokenUser(pin: token.userPIN, newPIN: "654321", options: options)
            try await expectRow(
                "tpm2-pkcs11", "TPM 2.0",
                user.cells(PKCS11Keystore(uri: token.uri, options: options)))
        }
    }

    @Test(.virtualYubiKey) func `ykcs11 with a YubiKey`() async throws {
        try await expectCardRow("ykcs11", "YubiKey", .ykcs11)
    }

    @Test(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7))) func `ykcs11 with another PIV card`()
        async throws
    {
        try await expectCardRow("ykcs11", "other PIV card", .ykcs11)
    }

    @Test(.virtualYubiKey) func `OpenSC with a PIV card`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        try await expectCardRow("OpenSC", "PIV card", .opensc)
    }

    private func expectCardRow(_ module: String, _ token: String, _ kind: YubiKeyModule.Kind)
        async throws
    {
        let card = try VirtualYubiKey.current.card
        let loaded = try YubiKeyModule(kind)
        let user = TokenUser(
            pin: CardProfile.defaultPIN, newPIN: "654321",
            officerPIN: VirtualYubiKey.factoryManagementKey)
        let existing = try kind == .opensc ? loaded.keystore(card, key: .authentication) : nil
        try await expectRow(module, token, user.cells(loaded.keystore(card), adopting: existing))
        withExtendedLifetime(loaded) {}
    }

    private func expectRow(_ module: String, _ token: String, _ cells: [String]) throws {
        let row = "| \(([module, token] + cells).joined(separator: " | ")) |"
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(
            path: "../../../..")
        let article = try String(
            contentsOf: root.appending(
                path: "Sources/Hardware/LatchkeyPKCS11/LatchkeyPKCS11.docc/TokensAndYubiKeys.md"),
            encoding: .utf8)
        #expect(article.contains("\n\(row)\n"), "the article needs this row:\n\(row)")
    }
}

/// Tries the operations of the table on a token.
private struct TokenUser {
    let pin: String
    let newPIN: String
    var officerPIN: String?
    var options = PKCS11Options()

    private static let prompt = PromptContext(reason: "try the token", container: "tests")

    private var presence: ScriptedPresence {
        ScriptedPresence(Array(repeating: .pin(pin), count: 3), officerPIN: officerPIN)
    }

    /// The cells of the table: create, adopt, sign, seal, certificate, change the PIN, unblock the
    /// PIN, delete.
    ///
    /// - Parameter adopting: A keystore with the URI of an existing key; by default of the created
    ///   key.
    func cells(_ keystore: PKCS11Keystore, adopting: PKCS11Keystore? = nil) async throws -> [String]
    {
        let request = KeyRequest(policy: .pin, prompt: Self.prompt)
        let canCreate = try await works { _ = try await keystore.checkCreation() }
        var created: HardwareKey?
        #expect(
            try await works {
                created = try await keystore.createKey(request, authorizedBy: presence)
            } == canCreate)
        let theirs = try adopting ?? #require(created.map { try self.adopting($0, of: keystore) })
        var adopted: HardwareKey?
        let adopts = try await works {
            adopted = try await theirs.createKey(request, authorizedBy: presence)
        }
        let key = try #require(created ?? adopted)
        let signs = try await works {
            let digest = MessageDigest(sha256: Array("a message".utf8))
            let signature = try await keystore.sign(
                digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: digest))
        }
        let seals = try await works {
            let secret = SecretBytes.random(count: 32)
            let sealed = try await keystore.seal(
                secret, policy: .pin, for: Self.prompt, authorizedBy: presence)
            _ = try await keystore.unseal(sealed, for: Self.prompt, authorizedBy: presence)
        }
        let stores = try await works {
            let certificate = try certificate(for: key)
            try await keystore.storeCertificate(
                certificate, for: key, prompt: Self.prompt, authorizedBy: presence)
        }
        var deletes = false
        if let created {
            deletes = try await works {
                try await keystore.delete(created, for: Self.prompt, authorizedBy: presence)
            }
        }
        let changes = try await works {
            let both = ScriptedPresence([.pin(pin), .pin(newPIN)])
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt, authorizedBy: both)
        }
        let unblocking =
            switch try await keystore.takeSnapshot().module.unblocking {
            case .securityOfficer: "SO PIN"
            case .prefixedSetPIN: "PUK"
            case .program(let program): "`\(program)`"
            }
        return [canCreate, adopts, signs, seals, stores, changes].map { $0 ? "yes" : "no" }
            + [unblocking, deletes ? "yes" : "no"]
    }

    /// - Returns: false if the token, its module or Latchkey refuses it. A wrong PIN, a lock or an
    ///   absent token is an error.
    private func works(_ body: () async throws -> Void) async throws -> Bool {
        do {
            try await body()
            return true
        } catch let error as KeystoreError
            where [.unsupported, .refused, .failed].contains(error.code)
        {
            return false
        }
    }

    private func adopting(_ key: HardwareKey, of keystore: PKCS11Keystore) throws -> PKCS11Keystore
    {
        let path = try #require(keystore.uri.modulePath)
        return try PKCS11Keystore(
            uri: "\(PKCS11Keystore.location(of: key))?module-path=\(path)",
            options: keystore.options)
    }

    private func certificate(for key: HardwareKey) throws -> Data {
        let name = try DistinguishedName { CommonName("Latchkey") }
        let publicKey = try P256.Signing.PublicKey(
            x963Representation: key.publicKey.x963Representation)
        let certificate = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: Certificate.PublicKey(publicKey),
            notValidBefore: Date() - 60, notValidAfter: Date() + 3600, issuer: name, subject: name,
            signatureAlgorithm: .ecdsaWithSHA256, extensions: Certificate.Extensions {},
            issuerPrivateKey: Certificate.PrivateKey(P256.Signing.PrivateKey()))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return Data(serializer.serializedBytes)
    }
}
