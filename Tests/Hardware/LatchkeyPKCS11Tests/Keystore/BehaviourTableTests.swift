import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// The table of behaviours in the article TokensAndYubiKeys: a module in front of SoftHSM2 shows one
/// at a time.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct BehaviourTableTests {
    /// A behaviour that the standard permits or that modules have, in the words of the table.
    struct Behaviour: Sendable {
        let name: String
        /// Rules of `HostileModule`, each of which shows the behaviour.
        let rules: [String]
        /// Whether only a login shows it, which `doctor` does not try.
        var needsLogin = false
    }

    static let behaviours: [Behaviour] = [
        Behaviour(
            name: "refuses `CKA_ALWAYS_AUTHENTICATE`",
            rules: each("C_GenerateKeyPair refuse 0x202", "0x10", "0x12", "0x13", "0xd1")),
        Behaviour(
            name: "ignores `CKA_ALWAYS_AUTHENTICATE`", rules: ["C_GenerateKeyPair drop 0x202"]),
        Behaviour(
            name: "refuses `CKA_EXTRACTABLE`",
            rules: each("C_GenerateKeyPair refuse 0x162", "0x12", "0x13", "0xd1")),
        Behaviour(
            name: "has no login for one use",
            rules: ["C_Login context 0x103", "C_Login context 0x54"]
        ),
        Behaviour(
            name: "answers a login for one use with `CKR_USER_ALREADY_LOGGED_IN`",
            rules: ["C_Login context 0x100"]),
        Behaviour(
            name: "has kept an earlier login", rules: ["C_Login return 0x100 1"]),
        Behaviour(
            name: "answers an error for `CKA_ALWAYS_AUTHENTICATE`",
            rules: ["0x0", "0x5", "0x6", "0x7", "0x11", "0x12", "0x13", "0x54"].map {
                "C_GetAttributeValue refuse 0x202 \($0)"
            }),
        Behaviour(
            name: "encodes points in another form",
            rules: each(
                "C_GetAttributeValue point", "bare", "compressed", "bare-compressed", "hybrid",
                "long", "bits")),
        Behaviour(
            name: "has no `C_GetInfo`", rules: ["C_GetInfo return 0x54", "C_GetInfo missing"]),
        Behaviour(
            name: "has no `C_GetSessionInfo`",
            rules: ["C_GetSessionInfo return 0x54", "C_GetSessionInfo missing"]),
        Behaviour(
            name: "has no `C_Logout`, or answers an error",
            rules: each("C_Logout return", "0x5", "0x6", "0x30", "0x50", "0x54", "0xb3")
                + ["C_Logout missing"]),
        Behaviour(name: "has no `C_GetSlotInfo`", rules: ["C_GetSlotInfo missing"]),
        Behaviour(
            name: "does not answer `C_GetMechanismInfo`",
            rules: each("C_GetMechanismInfo return", "0x5", "0x6", "0x54")
                + ["C_GetMechanismInfo missing"]),
        Behaviour(name: "pads texts with NUL", rules: ["C_GetTokenInfo nul"]),
        Behaviour(
            name: "names the curve as text",
            // `prime256v1` as a PrintableString.
            rules: ["C_GetAttributeValue value 0x180 130a7072696d653235367631"]),
        Behaviour(name: "encodes signatures in DER", rules: ["C_Sign der"]),
        Behaviour(name: "has one session at a time", rules: ["C_OpenSession limit 1"]),
        Behaviour(
            name: "reports a login for each use that a key does not need",
            rules: ["C_GetAttributeValue value 0x202 01"]),
        Behaviour(
            name: "does not report a login for each use that a key needs",
            rules: ["C_GetAttributeValue value 0x202 00"]),
        Behaviour(
            name: "stores keys that should end with a session",
            rules: ["C_GenerateKeyPair stored"]),
        Behaviour(
            name: "answers an error for another slot",
            rules: each("C_GetTokenInfo blank", "0x30", "0x5", "0x190")),
        Behaviour(
            name: "shows objects only after a login", rules: ["C_FindObjects hidden"]),
        Behaviour(
            name: "creates keys only after a login", rules: ["C_GenerateKeyPair login 0x101"]),
        Behaviour(
            name: "shows points only after a login",
            rules: each("C_GetAttributeValue veil 0x181", "0x0", "0x11", "0x12")),
        Behaviour(
            name: "does not show points",
            rules: each("C_GetAttributeValue refuse 0x181", "0x0", "0x11", "0x12")),
        Behaviour(
            name: "has no keys that end with a session",
            rules: ["C_GenerateKeyPair unstored 0x13", "C_GenerateKeyPair unstored 0xd1"]),
        Behaviour(
            name: "has no sessions that write",
            rules: each("C_OpenSession readonly", "0xb1", "0xb5", "0xe2")),
        Behaviour(
            name: "creates no keys",
            rules: each("C_GenerateKeyPair return", "0x6", "0x31", "0x50", "0x54")
                + ["C_GenerateKeyPair missing"]),
        Behaviour(
            name: "fails to sign",
            rules: ["C_Sign return 0x6", "C_SignInit return 0x6", "C_SignInit missing"]),
        Behaviour(
            name: "has no key agreement that works",
            rules: ["C_DeriveKey return 0x6", "C_DeriveKey return 0x54", "C_DeriveKey missing"]),
        Behaviour(
            name: "can't use a key after a login", rules: ["C_SignInit return 0x101"]),
        Behaviour(
            name: "fails to log in", rules: ["C_Login return 0x6", "C_Login missing"],
            needsLogin: true),
        Behaviour(
            name: "can't be loaded",
            rules: ["C_GetFunctionList return 0x5", "C_Initialize return 0x5"]),
    ]

    /// A rule with each of several codes.
    private static func each(_ rule: String, _ codes: String...) -> [String] {
        codes.map { "\(rule) \($0)" }
    }

    static let cases = behaviours.flatMap { behaviour in
        behaviour.rules.map { (behaviour, $0) }
    }

    @Test(arguments: BehaviourTableTests.cases)
    func `the row of a behaviour is true`(_ behaviour: Behaviour, _ rule: String) async throws {
        let hostile = try HostileToken()
        try hostile.tell(rule)
        let keystore = try PKCS11Keystore(
            uri: hostile.uri, options: PKCS11Options(token: HostileToken.quick))
        let doctor = await finding(keystore)
        var created: HardwareKey?
        let creates = try await works {
            created = try await KeystoreBench.key(on: keystore, .pin)
        }
        var signs = false
        if let created {
            signs = try await works {
                for _ in 0..<2 {
                    let signature = try await KeystoreBench.sign(with: created, on: keystore)
                    #expect(created.publicKey.isValid(signature, for: KeystoreBench.digest))
                }
            }
        }
        let seals = try await works { for _ in 0..<2 { try await seal(on: keystore) } }
        // What doctor says is what happens.
        if !behaviour.needsLogin {
            if doctor == "ok" { #expect(creates && signs && seals) }
            if doctor == "problem" { #expect(!creates) }
        }
        let cells = [doctor] + [creates, signs, seals].map { $0 ? "yes" : "no" }
        let row = "| \(([behaviour.name] + cells).joined(separator: " | ")) |"
        #expect(try article.contains("\n\(row)\n"), "\(rule) needs this row:\n\(row)")
        if let created {
            try await keystore.delete(
                created, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        }
        // A failure leaves no key. The sealing key stays.
        let keys = try await KeystoreBench.pkcs11Tool("--list-objects", "--type", "privkey")
        let count = keys.text.split(separator: "\n").count { $0.hasPrefix("Private Key Object") }
        #expect(count <= (seals || doctor == "warning" ? 1 : 0), "\(keys.text)")
    }

    @Test func `the table has a row for each behaviour`() throws {
        let heading =
            "| the module | `doctor` | `key create` | `key sign` | sealing |\n|---|---|---|---|---|\n"
        let start = try #require(article.firstRange(of: heading)).upperBound
        let rows = try article[start...].split(separator: "\n", omittingEmptySubsequences: false)
            .prefix { $0.hasPrefix("|") }
        #expect(rows.count == Self.behaviours.count)
    }

    private func finding(_ keystore: PKCS11Keystore) async -> String {
        do throws(KeystoreError) {
            let check = try await keystore.checkCreation()
            guard check.sealingFailure == nil else { return "warning" }
            return switch check.rehearsal {
            case .passed: "ok"
            case .notTried: "not tried"
            case .refused: "warning"
            }
        } catch {
            return "problem"
        }
    }

    private func seal(on keystore: PKCS11Keystore) async throws {
        let secret = SecretBytes.random(count: 32)
        let sealed = try await keystore.seal(
            secret, policy: .pin, for: KeystoreBench.prompt,
            authorizedBy: ScriptedPresence(pins: "correct"))
        let opened = try await keystore.unseal(
            sealed, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        #expect(opened == secret)
    }

    private func works(_ body: () async throws -> Void) async throws -> Bool {
        do {
            try await body()
            return true
        } catch is KeystoreError {
            return false
        }
    }

    private var article: String {
        get throws {
            let root = URL(filePath: #filePath).deletingLastPathComponent().appending(
                path: "../../../..")
            return try String(
                contentsOf: root.appending(
                    path:
                        "Sources/Hardware/LatchkeyPKCS11/LatchkeyPKCS11.docc/TokensAndYubiKeys.md"),
                encoding: .utf8)
        }
    }
}
