import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import Testing

/// An attacker on the bus answers that the TPM is busy, so that a PIN is sent again: the TPM counts
/// each wrong one.
@Suite(.softwareTPM)
struct ForgedBusyTests {
    enum Use: CaseIterable { case sign, signRevocable, unseal, changePIN, changeRevocablePIN }

    private func count() throws -> UInt32? {
        try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) }[.lockoutCounter]
    }

    /// TPM_RC_RETRY, TPM_RC_YIELDED, TPM_RC_TESTING.
    @Test(arguments: Use.allCases, [0x922, 0x908, 0x90a] as [UInt32])
    func `a wrong PIN costs at most one more attempt`(_ use: Use, _ answer: UInt32) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let (plain, secret) = (
            try await Scene.key(keystore),
            try await keystore.seal(
                .random(count: 32), policy: .pin, for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "123456"))
        )
        let revocable = try await keystore.createRevocableKey(
            KeyRequest(policy: .pin, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
        for key in [plain, revocable] { try await Scene.sign(keystore, key) }
        wire.tamper { code, response in
            let commands: [TPMCommandCode] = [
                .sign, .unseal, .nvRead, .objectChangeAuth, .nvChangeAuth, .policySecret,
            ]
            return commands.contains(code) ? Wire.error(answer) : response
        }
        let presence = ScriptedPresence(pins: "000000", "654321")
        let error = await Scene.error { () async throws(KeystoreError) in
            switch use {
            case .sign: _ = try await Scene.sign(keystore, plain, presence)
            case .signRevocable: _ = try await Scene.sign(keystore, revocable, presence)
            case .unseal:
                _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
            case .changePIN, .changeRevocablePIN:
                _ = try await keystore.changePIN(
                    of: [use == .changePIN ? plain : revocable], secrets: [], for: Scene.prompt,
                    authorizedBy: presence)
            }
        }
        #expect(error?.code == .transient)
        // The TPM has executed the command that it seems to be too busy for, and YIELDED does not
        // deny that.
        #expect(try count() == (answer == 0x908 ? 1 : 2))
        wire.behave()
        try await Scene.sign(keystore, plain)
        try Scene.expectNothingLoaded("at the end")
    }

    @Test func `the first PIN after a start is sent again when the TPM requests it`() async throws {
        let wire = Wire()
        let tpm = try SoftwareTPM.current
        let keystore = wire.keystore(tpm)
        let key = try await Scene.key(keystore)
        try await tpm.restart()
        wire.forget()
        try await Scene.sign(keystore, key)
        let answers = wire.exchanges.filter { $0.code == .sign }.map { Array($0.response[6..<10]) }
        #expect(answers == [[0, 0, 0x09, 0x22], [0, 0, 0, 0]])
        #expect(try count() == 0)
    }
}
