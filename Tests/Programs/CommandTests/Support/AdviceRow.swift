import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyServices
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A state, and the advice of its error.
struct AdviceRow: Sendable, CustomTestStringConvertible {
    let actions: [Recovery.Action]
    let follow: @Sendable (Advised) async throws -> Void

    init(
        _ actions: Recovery.Action...,
        follow: @escaping @Sendable (Advised) async throws -> Void
    ) {
        (self.actions, self.follow) = (actions, follow)
    }

    var testDescription: String { actions.map(\.rawValue).joined(separator: ", ") }

    private static let create = ["key", "create", "--policy", "none"]

    /// Creates a key and returns its ID.
    private static func key(
        _ advised: Advised, _ policy: String = "none", pins: [String]? = nil
    ) async throws -> String {
        let made = try await advised.succeed(
            ["key", "create", "--policy", policy, "--json"], pins: pins)
        return try #require(made.json()["id"]?.string)
    }

    static let ofTheTPM: [AdviceRow] = [
        AdviceRow(.allowShortPIN) { given in
            let tpm = try await SoftwareTPM(hasLockoutPassword: false)
            var advised = given
            advised.machine.environment["LATCHKEY_TCTI"] = tpm.tcti
            let create = ["key", "create"]
            let advice = try await advised.advice(of: create, .allowShortPIN, pins: ["2580"])
            try await advised.succeed(create + ["--allow-short-pin"], pins: ["2580"])
            let named = try #require(advice.firstMatch(of: /sudo [^.]*/))
            advised.typed = "a lockout password"
            advised.machine.environment["TPM2TOOLS_TCTI"] = tpm.tcti
            try await advised.shell(String(named.output))
            try await advised.succeed(create, pins: ["2580"])
            await tpm.cutPower()
        },
        AdviceRow(.choosePINSource) { advised in
            _ = try await advised.advice(of: ["key", "create"], .choosePINSource)
            let source = "file:" + (try advised.pinFile("258025"))
            try await advised.succeed(["key", "create", "--pin-source", source])
        },
        AdviceRow(.chooseTPM) { given in
            var advised = given
            let tcti = try #require(advised.machine.environment["LATCHKEY_TCTI"])
            for wrong in ["device:/nonexistent", "swtpm:path=/nonexistent"] {
                advised.machine.environment["LATCHKEY_TCTI"] = wrong
                _ = try await advised.advice(of: create, .chooseTPM)
                try await advised.succeed(create + ["--tcti", tcti])
            }
        },
        AdviceRow(.endLockout) { given in
            var advised = given
            let id = try await key(advised, "pin", pins: ["258025"])
            let sign = ["key", "sign", id, "/dev/null"]
            while try await advised.machine.run(sign, pins: ["000000"]).status == 4 {}
            _ = try await advised.advice(of: sign, .endLockout, pins: ["258025"])
            // It names the command of another package, for this TPM.
            let doctor = try await advised.machine.run("doctor", "--json").json()["checks"]?.array
            let advice = try #require(
                doctor?.first { $0["name"] == "lockout" }?["advice"]?.string)
            let command = try #require(advice.firstMatch(of: /sudo tpm2_.*?file:-/))
            advised.typed = try SoftwareTPM.current.lockoutPassword ?? ""
            try await advised.shell(String(command.output))
            try await advised.succeed(sign, pins: ["258025"])
        },
        AdviceRow(.resetStore) { given in
            _ = try await key(given)
            try await SoftwareTPM.withRunning { other in
                var advised = given
                advised.machine.environment["LATCHKEY_TCTI"] = other.tcti
                _ = try await advised.advice(of: create, .resetStore, status: 8)
                try await advised.run(.resetStore, adding: ["--yes"])
                try await advised.succeed(create)
            }
        },
        AdviceRow(.offerWithoutVerification, .choosePolicy) { advised in
            let id = try await key(advised)
            _ = try await advised.advice(
                of: ["ssh", "add", id], .choosePolicy, .offerWithoutVerification)
            try await advised.run(.offerWithoutVerification, adding: [id])
            try await advised.succeed(
                ["key", "create", "--ssh", "--policy", "pin"], pins: ["258025"])
        },
        AdviceRow(.chooseServer) { advised in
            let token = #"{"access_token":"a","token_type":"Bearer"}"#
            _ = try await advised.advice(
                of: ["credential", "add"], .chooseServer, input: token)
            try await advised.succeed(
                [
                    "credential", "add", "--endpoint", "https://id.example.com", "--client-id",
                    "app",
                ], input: token)
        },
        AdviceRow(.deletePasskey) { advised in
            _ = try await key(advised)
            let id = String(repeating: "A", count: 43)
            try copyRow(advised.machine, to: "passkey.\(id)", kind: "passkey")
            let listed = try await advised.succeed(["passkey", "list"])
            try #require(
                listed.errors.contains("Delete the passkey \(id)")
                    && listed.errors.contains(Recovery.Action.deletePasskey.command), "\(listed)")
            try await advised.run(.deletePasskey, adding: [id, "--yes"])
            #expect(try await advised.succeed(["passkey", "list"]).errors.isEmpty)
        },
        AdviceRow(.listPasskeys) { advised in
            _ = try await advised.machine.storePasskeys("id.example")
            _ = try await advised.advice(
                of: ["passkey", "show", "nothing"], .listPasskeys, status: 6)
            let listed = try await advised.run(.listPasskeys, adding: ["--json"]).json()
            let id = try #require(listed["passkeys"]?.array?.first?["id"]?.string)
            try await advised.succeed(["passkey", "show", id])
        },
    ]

    /// Rows for a machine with a finger, and what its server requires.
    static let ofFingers: KeyValuePairs = [
        "finger": AdviceRow(.requireFinger, .enrolBroker) { advised in
            try await advised.succeed(["login"])
            _ = try await advised.advice(
                of: ["enable", "--policy", "pin"], .requireFinger, pins: ["258025"], status: 9)
            try await advised.touching {
                _ = try await advised.advice(
                    of: ["enable", "--policy", "biometry-any"], .enrolBroker, status: 9)
            }
            let token = advised.machine.directory.path(of: "token")
            try Data("\(AttestationCommandTests.token)\n".utf8).write(to: URL(filePath: token))
            try #require(chmod(token, 0o600) == 0)
            // The test is root.
            #expect(Recovery.Action.enrolBroker.command == "Run ‘sudo latchkey broker enrol’.")
            try await advised.succeed(["broker", "enrol", "--token-file", token])
            try await advised.touching { try await advised.run(.requireFinger) }
        },
        "none": AdviceRow(.disable) { advised in
            try await advised.succeed(["login"])
            try await advised.succeed(["enable", "--policy", "pin"], pins: ["258025"])
            let enable = ["enable", "--policy", "biometry-any"]
            _ = try await advised.advice(of: enable, .disable, status: 10)
            try await advised.run(.disable)
            try await advised.touching { try await advised.succeed(enable) }
        },
    ]

    /// Rows for a TPM with an endorsement certificate, and a server that trusts its issuer.
    static let ofCertifiedTPMs: [AdviceRow] = [
        AdviceRow(.enrolAttestation, .chooseIssuer) { advised in
            try await advised.succeed(["login"])
            let endpoint = try #require(advised.machine.environment["LATCHKEY_ENDPOINT"])
            let attest = [
                "key", "attest", try await key(advised), "--challenge", "AAECAwQFBgcICQ", "--form",
                "acme",
            ]
            let named = attest + ["--issuer", endpoint]
            _ = try await advised.advice(of: named, .enrolAttestation, status: 1)
            try await advised.run(.enrolAttestation, adding: ["--endpoint", endpoint])
            try await advised.succeed(named)
            _ = try await advised.advice(of: attest, .chooseIssuer, status: 1)
            let shown = try await advised.succeed(["attestation", "show", "--json"])
            let issuer = try #require(shown.json()["issuers"]?.array?.first?["issuer"]?.string)
            try await advised.succeed(attest + ["--issuer", issuer])
        },
        AdviceRow(.forgetAttestation) { given in
            let folder = try TemporaryDirectory()
            let configuration = try AttestationCommandTests.configuration("none", in: folder)
            let enable = ["enable", "--policy", "pin"]
            let port = try await IdentityProcess.with(configuration) { server in
                let advised = try given.at(server)
                try await advised.succeed(["login"])
                try await advised.succeed(["attestation", "enrol"])
                return server.port
            }
            // The operator has replaced the server's keys.
            try await IdentityProcess.with(port: port, configuration) { server in
                let advised = try given.at(server)
                try await advised.succeed(["logout", "--force"])
                try await advised.succeed(["login"])
                _ = try await advised.advice(
                    of: enable, .forgetAttestation, pins: ["258025"], status: 9)
                try await advised.run(.forgetAttestation)
                try await advised.succeed(enable, pins: ["258025"])
            }
        },
    ]

    static let ofTokens: [AdviceRow] = [
        AdviceRow(.chooseToken) { given in
            let id = try await key(given)
            var advised = given
            advised.machine.environment["LATCHKEY_TOKEN"] = nil
            let sign = ["key", "sign", id, "/dev/null"]
            let advice = try await advised.advice(of: sign, .chooseToken, status: 8)
            #expect(advice.contains("‘latchkey token list’"))
            try await advised.succeed(sign + ["--token", uri(advised)])
        },
        AdviceRow(.chooseHardware) { given in
            var advised = given
            let store = ["vault", "store", "v"]
            let (show, token) = (
                ["vault", "show", "v"], advised.machine.environment["LATCHKEY_TOKEN"]
            )
            advised.machine.environment["LATCHKEY_TCTI"] = try SoftwareTPM.current.tcti
            advised.machine.environment["LATCHKEY_TOKEN"] = nil
            try await advised.succeed(store, input: "secret")
            advised.machine.environment["LATCHKEY_TOKEN"] = token
            _ = try await advised.advice(of: show, .chooseHardware)
            try await advised.succeed(
                store + ["--container", "other"], pins: ["123456"], input: "x")
            advised.machine.environment["LATCHKEY_TOKEN"] = nil
            try await advised.succeed(show)
        },
        AdviceRow(.listTokens) { given in
            var advised = given
            let token = try #require(advised.machine.environment["LATCHKEY_TOKEN"])
            advised.machine.environment["LATCHKEY_TOKEN"] = token.replacing(
                /token=[^;?]*/, with: "token=Absent")
            _ = try await advised.advice(of: create, .listTokens, status: 7)
            try await advised.succeed(create + ["--token", uri(advised)])
        },
        AdviceRow(.initializeToken) { given in
            var advised = given
            let token = try #require(advised.machine.environment["LATCHKEY_TOKEN"])
            let module = try #require(token.firstMatch(of: /module-path=.*/)).output
            // SoftHSM2 always has one slot with a token that is not initialized.
            let listed = try await advised.succeed(["token", "list", "--json"]).json()
            let blank = listed["tokens"]?.array?.first { $0["initialized"] == .bool(false) }
            advised.machine.environment["LATCHKEY_TOKEN"] = try #require(blank?["uri"]?.string)
            _ = try await advised.advice(of: create, .initializeToken)
            try await advised.run(
                .initializeToken, replacing: ["NAME": "Fresh"], pins: ["12345678", "654321"])
            advised.machine.environment["LATCHKEY_TOKEN"] = "pkcs11:token=Fresh?\(module)"
            try await advised.succeed(create)
        },
        AdviceRow(.eraseToken) { advised in
            let initialize = ["token", "init", "--label", "Latchkey"]
            let pins = ["12345678", "654321"]
            _ = try await advised.advice(of: initialize, .eraseToken, pins: pins)
            try await advised.succeed(initialize + ["--erase"], pins: pins)
            try await advised.succeed(["key", "create"], pins: ["654321"])
        },
        AdviceRow(.listTokenKeys) { given in
            var advised = given
            _ = try await key(advised)
            let token = try #require(advised.machine.environment["LATCHKEY_TOKEN"])
            advised.machine.environment["LATCHKEY_TOKEN"] = token.replacing("?", with: ";id=%01?")
            _ = try await advised.advice(of: create, .listTokenKeys, status: 6)
            advised.machine.environment["LATCHKEY_TOKEN"] = token
            let listed = try await advised.run(.listTokenKeys, adding: ["--json"])
            let uri = try #require(try listed.json()["keys"]?.array?.first?["uri"]?.string)
            advised.machine.environment["LATCHKEY_TOKEN"] = uri
            try await advised.succeed(create)
        },
        AdviceRow(.initializeTokenPIN) { given in
            var advised = given
            let token = try #require(advised.machine.environment["LATCHKEY_TOKEN"])
            let module = try #require(token.firstMatch(of: /module-path=(.*)/)?.output.1)
            let slots = try await program(
                "softhsm2-util", ["--show-slots"], environment: advised.machine.environment)
            let blank = try #require(slots.matches(of: /(?m)^Slot ([0-9]+)/).last?.output.1)
            try await program(
                "pkcs11-tool",
                [
                    "--module", String(module), "--init-token", "--label", "NoPIN", "--so-pin",
                    "12345678", "--slot", String(blank),
                ], environment: advised.machine.environment)
            advised.machine.environment["LATCHKEY_TOKEN"] =
                "pkcs11:token=NoPIN?module-path=\(module)"
            _ = try await advised.advice(
                of: ["key", "create"], .initializeTokenPIN, pins: ["654321"])
            try await advised.run(.initializeTokenPIN, pins: ["12345678", "654321"])
            try await advised.succeed(["key", "create"], pins: ["654321"])
        },
        AdviceRow(.changeTokenPIN) { given in
            var advised = given
            // The first login of each process fails with CKR_PIN_EXPIRED.
            let script = try oddModule(&advised, "C_Login return 0xa3 1")
            _ = try await advised.advice(
                of: ["key", "create"], .changeTokenPIN, pins: ["123456"])
            try await advised.run(.changeTokenPIN, pins: ["123456", "654321"])
            try script.tell()
            try await advised.succeed(["key", "create"], pins: ["654321"])
        },
        AdviceRow(.enterPINAtReader) { given in
            var advised = given
            // Neither CKF_LOGIN_REQUIRED nor CKF_USER_PIN_INITIALIZED, and a reader that asks for the PIN.
            _ = try oddModule(
                &advised, "C_GetTokenInfo clear 0xc", "C_Login reader 313233343536")
            let create = ["key", "create"]
            _ = try await advised.advice(of: create, .enterPINAtReader, pins: ["123456"])
            try await advised.succeed(
                create + ["--token-login", "reader", "--policy", "user-presence"])
        },
        AdviceRow(.diagnose) { advised in
            try await advised.succeed(["vault", "store", "v"], input: "secret")
            let upgrade = ["vault", "upgrade", "v", "--policy"]
            _ = try await advised.advice(of: upgrade + ["biometry-any"], .diagnose, status: 1)
            try await advised.run(.diagnose)
            try await advised.succeed(upgrade + ["pin"], pins: ["123456"])
        },
        AdviceRow(.storeVaultWithPIN) { advised in
            try await advised.succeed(["key", "create"], pins: ["123456"])
            let change = ["pin", "change", "--secrets"]
            _ = try await advised.advice(
                of: change, .storeVaultWithPIN, pins: ["123456", "654321"])
            try await advised.run(
                .storeVaultWithPIN, replacing: ["NAME": "v"], pins: ["123456"], input: "secret")
            try await advised.succeed(change, pins: ["123456", "654321"])
        },
    ]

    static let ofCards: [AdviceRow] = [
        AdviceRow(.unblockPIN) { advised in
            let id = try await cardKey(advised)
            let sign = ["key", "sign", id, "/dev/null"]
            while try await advised.machine.run(sign, pins: ["000000"]).status == 4 {}
            _ = try await advised.advice(of: sign, .unblockPIN, pins: [], status: 5)
            try await advised.run(.unblockPIN, pins: ["12345678", "345678"])
            try await advised.succeed(sign, pins: ["345678"])
        },
        AdviceRow(.forgetKey) { advised in
            let id = try await cardKey(advised)
            let delete = ["key", "delete", id, "--yes"]
            _ = try await advised.advice(of: delete, .forgetKey, pins: ["123456"])
            try await advised.succeed(delete + ["--forget"])
            #expect(try await advised.machine.run("key", "show", id).status == 6)
        },
        AdviceRow(.enterPINHere) { given in
            var advised = given
            advised.machine.environment["LATCHKEY_TOKEN_LOGIN"] = "reader"
            let unblock = ["token", "pin", "--unblock"]
            _ = try await advised.advice(of: unblock, .enterPINHere, pins: [])
            try await advised.succeed(
                unblock + ["--token-login", "pin"], pins: ["12345678", "345678"])
        },
    ]

    /// Rows for a card with few slots.
    static let ofSmallCards: [AdviceRow] = [
        AdviceRow(.chooseSlot) { advised in
            let create = ["key", "create", "--slot"]
            let pins = [VirtualYubiKey.factoryManagementKey, "123456"]
            _ = try await advised.advice(of: create + ["84"], .chooseSlot, pins: pins)
            try await advised.succeed(create + ["9a"], pins: pins)
        }
    ]

    /// Creates a key on a card and returns its ID.
    private static func cardKey(_ advised: Advised) async throws -> String {
        let made = try await advised.succeed(
            ["key", "create", "--json"], pins: [VirtualYubiKey.factoryManagementKey, "123456"])
        return try #require(made.json()["id"]?.string)
    }

    /// The script of a module in front of the token's.
    private struct OddModule {
        let base: String
        let script: URL

        func tell(_ rules: String...) throws { try tell(rules) }

        func tell(_ rules: [String]) throws {
            let lines = ["base \(base)"] + rules
            try Data(lines.map { "\($0)\n" }.joined().utf8).write(to: script)
        }
    }

    /// Puts a module in front of the token's.
    ///
    /// - Parameter rules: Those of `Tests/C/HostileModule`.
    private static func oddModule(_ advised: inout Advised, _ rules: String...) throws -> OddModule
    {
        let token = try #require(advised.machine.environment["LATCHKEY_TOKEN"])
        let module = try #require(token.firstMatch(of: /module-path=(.*)/)?.output.1)
        let path = advised.machine.directory.path(of: "odd.so")
        try FileManager.default.copyItem(
            atPath: BuiltProduct.library("HostileModule"), toPath: path)
        let odd = OddModule(base: String(module), script: URL(filePath: "\(path).script"))
        try odd.tell(rules)
        advised.machine.environment["LATCHKEY_TOKEN"] = "pkcs11:token=Latchkey?module-path=\(path)"
        return odd
    }

    /// The URI of the software token, as `token list` shows it. There can be cards of other tests.
    private static func uri(_ advised: Advised) async throws -> String {
        let listed = try await advised.run(.listTokens, adding: ["--json"]).json()
        return try #require(
            listed["tokens"]?.array?.compactMap { $0["uri"]?.string }.first {
                $0.contains("token=Latchkey") && $0.contains("manufacturer=SoftHSM")
            }, "\(listed)")
    }

    static let ofServers: [AdviceRow] = [
        AdviceRow(.login, .enable) { advised in
            _ = try await advised.advice(
                of: ["authenticate"], .login, .enable, pins: ["258025"], status: 6)
            try await advised.run(.login)
            try await advised.run(.enable, pins: ["258025"])
            try await advised.succeed(["authenticate"], pins: ["258025"])
        },
        AdviceRow(.authenticate) { advised in
            try await advised.succeed(["login"])
            let enable = ["enable", "--policy", "pin"]
            try await advised.succeed(enable, pins: ["258025"])
            try await advised.succeed(["logout", "--keep-biometric"])
            _ = try await advised.advice(of: enable, .authenticate, pins: ["258025"])
            try await advised.run(.authenticate, pins: ["258025"])
            try await advised.succeed(enable)
        },
        AdviceRow(.replaceLoginKey) { given in
            let enable = ["enable", "--policy", "pin"]
            try await given.succeed(["login"])
            try await given.succeed(enable, pins: ["258025"])
            var advised = given
            advised.machine = try given.machine.copy()
            // The TPM then no longer has the key, and the server has it.
            try await given.succeed(["disable", "--force"])
            let authenticate = ["authenticate"]
            _ = try await advised.advice(
                of: authenticate, .replaceLoginKey, pins: ["258025"], status: 8)
            try await advised.run(.replaceLoginKey)
            try await advised.succeed(["disable"])
            try await advised.succeed(enable, pins: ["258025"])
            try await advised.succeed(authenticate, pins: ["258025"])
        },
        AdviceRow(.forceLogout) { given in
            var advised = given
            advised.machine.environment["LATCHKEY_CLIENT_ID"] = "another"
            try await given.succeed(["login"])
            _ = try await advised.advice(of: ["enable"], .forceLogout, pins: ["258025"], status: 10)
            try await advised.run(.forceLogout)
            try await given.succeed(["login"])
        },
        AdviceRow(.omitShares) { given in
            try await IdentityProcess.with(["extensions": ["locker": ["level_shares": false]]]) {
                server in
                let advised = try given.at(server)
                let start = ["locker", "start"]
                _ = try await advised.advice(of: start, .omitShares, pins: ["258025"])
                try await advised.succeed(start + ["--without-shares"], pins: ["258025"])
            }
        },
    ]
}
