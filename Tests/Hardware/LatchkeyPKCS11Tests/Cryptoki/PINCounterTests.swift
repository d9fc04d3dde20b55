import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// The responses of cards about wrong PINs, and the words for the user.
@Suite struct PINCounterTests {
    @Test(
        arguments: [
            ([], nil), ([0x63], nil), ([0x90, 0x00], nil), ([0x63, 0xC0], 0), ([0x63, 0xCF], 15),
            ([0x69, 0x83], 0),
            ([0x63, 0x02], nil), ([0x69, 0x82], nil), ([0x6A, 0x88], nil), ([1, 2, 0x63, 0xC2], 2),
        ] as [([UInt8], Int?)]) func `a response of a PIV card`(_ response: [UInt8], _ left: Int?)
    {
        #expect(PINCounter.piv.attemptsLeft(in: response) == left)
    }

    @Test(
        arguments: [
            ([], nil), ([0x90, 0x00], nil), ([1, 127, 127, 127, 2, 0, 3, 0x90, 0x00], 2),
            ([1, 127, 127, 127, 0, 0, 3, 0x90, 0x00], 0), ([1, 127, 127, 127, 2, 0x90, 0x00], nil),
            ([1, 127, 127, 127, 2, 0, 3, 0x69, 0x82], nil),
            ([1, 127, 127, 127, 2, 0, 3, 4, 0x90, 0x00], nil),
        ] as [([UInt8], Int?)]) func `a response of an OpenPGP card`(
            _ response: [UInt8], _ left: Int?
        )
    {
        #expect(PINCounter.openPGP.attemptsLeft(in: response) == left)
    }

    @Test(
        arguments: [
            (1, "; 1 attempt is left", "the next wrong one locks the token"),
            (2, "; 2 attempts are left", "right PIN"),
            (nil, "; few attempts are left", "Check the PIN"),
        ] as [(Int?, String, String)]) func `a wrong PIN`(
            _ left: Int?, _ reason: String, _ recovery: String
        )
    {
        var status = PINStatus(attemptsLeft: left, attemptLimit: nil, isLockedOut: false)
        status.isCountLow = true
        let error = KeystoreError.wrongPIN(
            status, underlying: CryptokiError(.pinIncorrect, from: "C_Login"))
        #expect(error.code == .wrongProof && error.attemptsLeft == left)
        #expect(error.reason == "the PIN is wrong" + reason)
        #expect(error.recovery.contains(recovery), "\(error.recovery)")
    }

    @Test func `a prompt after a wrong PIN warns, if the number of attempts is unknown`()
        async throws
    {
        let profile = TokenProfile(
            .generic, information: .sample(label: "a", serial: "1"), options: PKCS11Options())
        var status = PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false)
        let presence = ScriptedPresence(pins: "123456", "123456")
        let prompt = PromptContext(reason: "sign", container: "tests")
        _ = try await profile.proof(.current, for: prompt, status, presence)
        status.isCountLow = true
        _ = try await profile.proof(.current, for: prompt, status, presence)
        #expect(
            presence.requests.map(\.hint) == [
                nil, "A wrong PIN was entered before; few attempts are left.",
            ])
    }
}
