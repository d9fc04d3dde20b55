import Dispatch
import Latchkey
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

@testable import LatchkeyPKCS11

/// A card that is removed during `C_Login` or `C_Sign`, with the deadlines of the tool. OpenSC 0.23
/// then never returns.
@Suite(.virtualYubiKey)
struct RemovalDuringUseTests {
    typealias ModuleKind = (kind: YubiKeyModule.Kind, isolation: TokenOptions.Isolation)

    static let modules: [ModuleKind] = [
        (.ykcs11, .never), (.opensc, .automatic), (.opensc, .never),
    ]

    /// VERIFY and GENERAL AUTHENTICATE (NIST SP 800-73-4 part 2).
    @Test(arguments: modules, [0x20, 0x87] as [UInt8])
    func `a card that is removed during a use is unavailable`(
        through module: ModuleKind, instruction: UInt8
    ) async throws {
        let scene = try await YubiKeyScene(
            module.kind, options: TokenOptions(isolation: module.isolation))
        try await scene.expectSignature()
        scene.yubiKey.card.inject(CardFault(.removal, instruction: instruction))
        let start = ContinuousClock.now
        let error = await scene.failure()
        let duration = ContinuousClock.now - start
        print(
            "\(module): a removal at the instruction \(instruction) is reported after \(duration)")
        #expect(error?.code == .unavailable, "\(String(describing: error))")
    }

    private var reader: String { SmartCardReader.name(ofSlot: 0) }

    @Test func `a call that waits for the user ends soon after a removal, and not before`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let watch = CallWatch()
        let expired = DispatchSemaphore(value: 0)
        watch.onExpiry { _ in expired.signal() }
        let removal = RemovalCheck(reader: reader, interval: .milliseconds(50))
        let thread = BlockingThread()
        func call(waiting limit: Duration) async -> DispatchTimeoutResult {
            await thread.run {
                watch.during("C_Sign", within: .seconds(3600), endedBy: removal) {
                    expired.wait(timeout: .now() + limit / .seconds(1))
                }
            }
        }
        #expect(await call(waiting: .seconds(1)) == .timedOut)
        try await yubiKey.eject()
        #expect(await call(waiting: hangLimit) == .success)
    }

    @Test func `there is no touch notice for an absent card`() async throws {
        let yubiKey = try VirtualYubiKey.current
        let presence = ScriptedPresence([])
        let hint = TouchHint(
            presence, for: PromptContext(reason: "sign", container: "tests"),
            on: .ykcs11(ModuleInformation.Version(major: 2, minor: 20)), reader: reader)
        let thread = BlockingThread()
        func use(whileNoticesAreFewerThan count: Int, within limit: Duration) async throws {
            try await thread.run { () throws(CryptokiError) in
                try hint.during { () throws(CryptokiError) in
                    let deadline = ContinuousClock.now + limit
                    while presence.notices.count < count, ContinuousClock.now < deadline {
                        _ = DispatchSemaphore(value: 0).wait(timeout: .now() + 0.05)
                    }
                }
            }
        }
        try await use(whileNoticesAreFewerThan: 1, within: hangLimit)
        #expect(presence.notices.count == 1)
        try await yubiKey.eject()
        // A notice without an answer of pcscd would come before this time.
        let wait = TouchHint.delay + CardReset.answerLimit + .seconds(1)
        try await use(whileNoticesAreFewerThan: 2, within: wait)
        #expect(presence.notices.count == 1)
    }
}
