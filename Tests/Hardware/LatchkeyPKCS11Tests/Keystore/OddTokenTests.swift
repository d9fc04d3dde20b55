import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Behaviours that the standard permits, or that modules have in practice.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct OddTokenTests {
    private func keystore(_ hostile: HostileToken) throws -> PKCS11Keystore {
        try PKCS11Keystore(
            uri: hostile.uri, options: PKCS11Options(token: HostileToken.quick))
    }

    @Test func `a login for one use counts only if the token has checked its PIN`() async throws {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let id = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self).name.id
        let hostile = try HostileToken()
        // CKR_USER_ALREADY_LOGGED_IN, as if there were no login for one use.
        try hostile.tell("C_Login context 0x100")
        let token = try await hostile.token()
        let (pin, wrong) = (LoginProof.pin(try PIN("correct")), LoginProof.pin(try PIN("wrong")))
        let sign = {
            @Sendable (session: Session, proof: LoginProof) throws(CryptokiError) -> ECDSASignature
            in
            let key = try session.key(id: id)
            return try session.sign(KeystoreBench.digest, with: key, proof: proof)
        }
        let signature = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            return try sign(session, pin)
        }
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
        // The login is of an earlier operation.
        var error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try sign(session, pin)
            }
        }
        #expect(error?.kind == .noContextLogin)
        error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                return try sign(session, wrong)
            }
        }
        #expect(error?.kind == .noContextLogin)
    }

    @Test(arguments: [
        // SoftHSM2 while another process writes: CKR_GENERAL_ERROR, CKR_USER_PIN_NOT_INITIALIZED.
        "C_Login return 0x5 1", "C_Login return 0x102 1",
    ])
    func `a login that met a write of another process is repeated`(_ answer: String) async throws {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let hostile = try HostileToken()
        try hostile.tell(answer)
        let presence = ScriptedPresence(pins: "correct")
        _ = try await KeystoreBench.sign(with: key, on: keystore(hostile), presence)
        #expect(presence.requests.count == 1)
        try hostile.tell(answer.replacing(" 1", with: "", maxReplacements: 1))
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: key, on: keystore(hostile))
        }
        #expect(error.code == .transient)
        #expect(error.recoveryAction.actions.isEmpty, "\(error)")
    }

    @Test func `a token that wants a login after each login is not asked to try again`()
        async throws
    {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let hostile = try HostileToken()
        try hostile.tell("C_SignInit return 0x101")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: key, on: keystore(hostile))
        }
        #expect(error.code == .unsupported)
        #expect(error.reason.contains("accepted the PIN"), "\(error)")
    }

    @Test func `a token chooses the CKA_ID of a key, but not that of another key`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GenerateKeyPair id 0102030405060708")
        let keystore = try keystore(hostile)
        let key = try await KeystoreBench.key(on: keystore, .pin)
        #expect(try key.tokenID == "0102030405060708")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: keystore, .pin)
        }
        #expect(error.code == .refused)
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
        #expect(try await privateKeys() == 1)
    }

    @Test func `a wrong PIN is refused where a login of the past can't be ended`() async throws {
        let hostile = try HostileToken()
        let keystore = try keystore(hostile)
        let key = try await KeystoreBench.key(on: keystore, .pin)
        try hostile.tell("C_Logout return 0x54")
        _ = try await KeystoreBench.sign(with: key, on: keystore)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(
                with: key, on: keystore, ScriptedPresence(pins: "wrong"))
        }
        #expect(error.code == .wrongProof)
    }

    @Test(arguments: ["0xb1", "0xb5", "0xe2"])
    func `a key is used on a token without read and write sessions`(_ code: String) async throws {
        let hostile = try HostileToken()
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        try hostile.tell("C_OpenSession readonly \(code)")
        let signature = try await KeystoreBench.sign(with: key, on: keystore(hostile))
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    @Test func `a failed self-test leaves no key on the token`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_Sign return 0x6")
        let keystore = try keystore(hostile)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: keystore, .pin)
        }
        #expect(error.code == .failed)
        #expect(try await privateKeys() == 0)
    }

    @Test func `a key that can't be deleted after a failure is named`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_Sign return 0x6", "C_DestroyObject return 0x6")
        let keystore = try keystore(hostile)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: keystore, .pin)
        }
        #expect(error.recovery.contains("unused key"), "\(error)")
        #expect(try await privateKeys() == 1)
    }

    @Test func `a key whose public half is visible only after a login is adopted and used`()
        async throws
    {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let hostile = try HostileToken()
        try hostile.tell("C_FindObjects hidden")
        let id = try key.percentID
        let uri = hostile.uri.replacing("?", with: ";id=%\(id)?", maxReplacements: 1)
        let adopting = try PKCS11Keystore(
            uri: uri, options: PKCS11Options(token: HostileToken.quick))
        let adopted = try await KeystoreBench.key(on: adopting, .pin)
        #expect(adopted.publicKey == key.publicKey)
        _ = try await KeystoreBench.sign(with: adopted, on: adopting)
    }

    @Test func `several keys with one ID are told apart by public key and label`() async throws {
        let keystore = try KeystoreBench.keystore()
        let first = try await KeystoreBench.key(on: keystore, .pin, label: "first")
        let made = try await KeystoreBench.pkcs11Tool(
            "--keypairgen", "--key-type", "EC:secp256r1", "--id", first.tokenID, "--label",
            "second", "--usage-sign", "--sensitive")
        try #require(made.isSuccess, "\(made.text)")
        let signature = try await KeystoreBench.sign(with: first, on: keystore)
        #expect(first.publicKey.isValid(signature, for: KeystoreBench.digest))

        let listed = try await keystore.keys()
        #expect(listed.map(\.label).sorted() == ["first", "second"])
        let uri = try #require(listed.first { $0.label == "second" }?.uri)
        let second = try await KeystoreBench.key(on: PKCS11Keystore(uri: uri), .pin)
        #expect(second.publicKey != first.publicKey)
        _ = try await KeystoreBench.sign(with: second, on: keystore)

        try await keystore.delete(
            first, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence(pins: "correct"))
        _ = try await KeystoreBench.sign(with: second, on: keystore)
        #expect(try await privateKeys() == 1)
    }

    @Test func `keys that can't be adopted are listed with the reason`() async throws {
        for id in ["", "ab"] {
            let made = try await KeystoreBench.pkcs11Tool(
                ["--keypairgen", "--key-type", id.isEmpty ? "EC:secp256r1" : "EC:secp384r1"]
                    + (id.isEmpty ? [] : ["--id", id]) + ["--label", "odd\(id)", "--usage-sign"])
            try #require(made.isSuccess, "\(made.text)")
        }
        let listed = try await KeystoreBench.keystore().keys()
        #expect(Set(listed.map(\.label)).isSuperset(of: ["odd", "oddab"]))
        for key in listed { #expect(key.uri == nil && key.problem != nil, "\(key)") }
    }

    @Test func `the key that seals secrets is listed as such, and not for adoption`() async throws {
        let keystore = try KeystoreBench.keystore()
        _ = try await keystore.seal(
            .random(count: 32), policy: .none, for: KeystoreBench.prompt,
            authorizedBy: ScriptedPresence(pins: "correct"))
        let listed = try await keystore.keys()
        #expect(listed.count == 1)
        #expect(listed.first?.uri == nil)
        #expect(listed.first?.problem?.contains("seals secrets") == true, "\(listed)")
    }

    @Test func `the stored serial number chooses among several tokens`() async throws {
        let made = try await KeystoreBench.program(
            "softhsm2-util",
            [
                "--init-token", "--free", "--label", "another", "--so-pin", "12345678", "--pin",
                "correct",
            ])
        try #require(made.isSuccess, "\(made.text)")
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let unspecific = try PKCS11Keystore(
            uri: "pkcs11:?module-path=\(SoftwareToken.current.modulePath)")
        _ = try await KeystoreBench.sign(with: key, on: unspecific)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: unspecific, .pin)
        }
        #expect(error.code == .conflict)
    }

    @Test func `an expired PIN is changed`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_Login return 0xa3 1")
        let presence = ScriptedPresence(pins: "correct", "brand new")
        try await TokenAdministrator(
            TokenURI(hostile.uri), options: PKCS11Options(token: HostileToken.quick),
            presence: presence
        ).changePIN()
        _ = try await KeystoreBench.key(
            on: keystore(hostile), .pin, ScriptedPresence(pins: "brand new"))
    }

    /// Labels and serial numbers, in hexadecimal digits.
    @Test(
        arguments: ["label", "serial"],
        [
            // Nothing, a NUL at the end and inside, UTF-8, other bytes, an escape, 32 bytes, and
            // characters of URIs.
            "", "00", "776f726b00", "61006200", "c3a92062", "fffe61", "1b5b324a",
            String(repeating: "61", count: 32), "613b623d633f643a2563",
        ])
    func `a token with any text is found by its own URI`(_ field: String, _ text: String)
        async throws
    {
        let hostile = try HostileToken()
        let blank = text.isEmpty ? "20" : text
        try hostile.tell("C_GetTokenInfo \(field) \(blank)")
        let listed = await TokenDirectory.read(
            configured: false, paths: [hostile.modulePath], options: HostileToken.quick)
        let uri = try #require(
            listed.tokens.first { $0.information.flags.contains(.initialized) }?.uri.string,
            "\(listed)")
        let keystore = try PKCS11Keystore(
            uri: uri, options: PKCS11Options(token: HostileToken.quick))
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    @Test func `tokens that no URI tells apart are named as such`() async throws {
        let made = try await KeystoreBench.program(
            "softhsm2-util",
            [
                "--init-token", "--free", "--label", "another", "--so-pin", "12345678", "--pin",
                "correct",
            ])
        try #require(made.isSuccess, "\(made.text)")
        let hostile = try HostileToken()
        try hostile.tell("C_GetTokenInfo label 61", "C_GetTokenInfo serial 62")
        let error = try await KeystoreBench.error {
            let keystore = try PKCS11Keystore(
                uri: "pkcs11:token=a;serial=b?module-path=\(hostile.modulePath)",
                options: PKCS11Options(token: HostileToken.quick))
            _ = try await KeystoreBench.key(on: keystore, .pin)
        }
        #expect(error.code == .conflict)
        #expect(error.recovery.contains("disconnect all but one"), "\(error)")
    }

    private func privateKeys() async throws -> Int {
        let all = try await KeystoreBench.pkcs11Tool("--list-objects", "--type", "privkey")
        try #require(all.isSuccess, "\(all.text)")
        return all.text.split(separator: "\n").count { $0.hasPrefix("Private Key Object") }
    }
}

extension HardwareKey {
    /// The key's `CKA_ID` as in a URI, without the first percent sign.
    fileprivate var percentID: String {
        get throws {
            try DigestedStructure.parsed(blob, as: TokenKeyBlob.self).name.id
                .map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(separator: "%")
        }
    }
}
