import Crypto
import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// A yes without a key, of the real broker with the real fprintd, dbus-daemon and swtpm.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .softwareTPM, .virtualFinger)
struct OwnerAuthenticationTests {
    /// The error of an evaluation, nil for a yes.
    private static func refusal(by broker: SystemPresenceBroker) async -> KeystoreError? {
        do throws(KeystoreError) {
            try await OwnerAuthentication(broker: broker).evaluate(reason: "show “the” codes\n")
            return nil
        } catch { return error }
    }

    private static func refusal(
        _ scene: BrokerScene, showing touch: VirtualFingerprintReader.Touch
    ) async throws -> KeystoreError? {
        async let refusal = refusal(by: scene.client)
        try await scene.reader.present(touch)
        return await refusal
    }

    @Test func `the user's finger is a yes, and the prompt names the process and the reason`()
        async throws
    {
        try await BrokerScene.with { scene in
            #expect(try await Self.refusal(scene, showing: .finger("mine")) == nil)
            #expect(scene.progress.words == [.waiting, .matched])
            let prompt = try #require(scene.progress.prompts.first)
            let process = ProcessInfo.processInfo.processIdentifier
            #expect(
                prompt.hasPrefix("Process \(process) of \(BrokerScene.user), which calls itself “"))
            #expect(
                prompt.hasSuffix(
                    "”, asks for a finger of \(BrokerScene.user). Its reason: “show 'the' codes\u{FFFD}”."
                ), "\(prompt)")
        }
    }

    @Test func `another finger is no yes, and five lock the user out`() async throws {
        try await BrokerScene.with { scene in
            for _ in 0..<5 {
                let error = try await Self.refusal(scene, showing: .finger("another's"))
                #expect(error?.code == .wrongProof)
                #expect(error?.operation == "verify the user")
            }
            let error = await Self.refusal(by: scene.client)
            #expect(error?.code == .lockedOut)
            #expect(error?.lockedOutUntil != nil)
        }
    }

    @Test func `a cancelled request is no yes, and frees the reader`() async throws {
        try await BrokerScene.with { scene in
            let waiting = Task { await Self.refusal(by: scene.client) }
            try await scene.progress.wait(for: .waiting)
            waiting.cancel()
            #expect(await waiting.value?.code == .cancelled)
            #expect(try await Self.refusal(scene, showing: .finger("mine")) == nil)
        }
    }

    @Test func `without a finger in time there is no yes`() async throws {
        try await BrokerScene.with(timeLimit: 1) { scene in
            #expect(await Self.refusal(by: scene.client)?.code == .cancelled)
        }
    }

    @Test func `without an enrolled finger or the broker there is no yes`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let none = await Self.refusal(by: scene.client)
            #expect(none?.code == .notEnrolled, "\(String(describing: none))")
            await scene.broker.stop()
            #expect(await Self.refusal(by: scene.client)?.code == .unavailable)
        }
        let nowhere = SystemPresenceBroker(busAddress: "unix:path=/nowhere/bus")
        #expect(await Self.refusal(by: nowhere)?.code == .unavailable)
    }

    @Test(arguments: [
        ["[byte 0]", "r"], ["[]", "r"], [list(31), "r"], [list(33), "r"], [list(100), "r"],
        [list(32), String(repeating: "r", count: 4097)],
    ])
    func `a request that makes no sense reaches no reader`(_ arguments: [String]) async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let answer = try await Stranger(on: scene.reader.busAddress)
                .call("Evaluate", arguments)
            #expect(
                answer.text.contains("org.latchkey.Presence1.Error.InvalidInput"), "\(answer.text)")
        }
    }

    private static func list(_ count: Int) -> String {
        "[\(Array(repeating: "byte 1", count: count).joined(separator: ", "))]"
    }

    /// What a program that owns the service's name signs.
    enum Signed: CaseIterable {
        case theRequest
        case anotherUser
        case anotherCaller
        case anotherReason
        case anotherNonce
        case anApproval
        case withAnotherKey
        case nothing

        /// The message, in place of that of the request.
        func message(for request: OwnerStatement) -> [UInt8] {
            var (user, caller) = (request.user, request.caller)
            var (reason, nonce) = (request.reason, request.nonce)
            switch self {
            case .anotherUser: user += 1
            case .anotherCaller: caller += "0"
            case .anotherReason: reason += " "
            case .anotherNonce: nonce[0] ^= 1
            default: break
            }
            let stated = OwnerStatement(user: user, caller: caller, reason: reason, nonce: nonce)
            let reference =
                self == .anApproval
                ? PresenceReference.use(by: user, under: .biometryAny, enrolmentSet: nil)
                : stated.reference
            return Approval(nonceTPM: Array(nonce), policyRef: reference).message
        }
    }

    @Test(arguments: Signed.allCases)
    func `a signature over another request is no yes`(_ signed: Signed) async throws {
        try await SystemBus.withRunning(as: geteuid()) { address in
            let (key, other) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
            let terms = PresenceTerms(user: geteuid(), authority: try Self.publicArea(of: key))
            let bus = try await Bus.system(at: address)
            try await bus.serve { call in
                guard call.member == PresenceWire.Method.evaluate.rawValue else {
                    return .answer(.success(PresenceWire.arguments(terms)))
                }
                guard
                    let request = PresenceWire.ownerRequest(
                        call.arguments, of: geteuid(), call.sender),
                    let signature = try? (signed == .withAnotherKey ? other : key)
                        .signature(for: SHA256.hash(data: signed.message(for: request)))
                else { return .answer(.failure(.closed)) }
                let bytes = signed == .nothing ? [] : Array(signature.rawRepresentation)
                return .answer(.success([.bytes(bytes)]))
            }
            try await bus.own(PresenceWire.name)
            let error = await Self.refusal(by: SystemPresenceBroker(busAddress: address))
            #expect(error?.code == (signed == .theRequest ? nil : .refused))
        }
    }

    /// The public area that the broker states for its key.
    private static func publicArea(of key: P256.Signing.PrivateKey) throws -> Data {
        var area = KeyTemplates.approvalKey
        guard case .ecc(let parameters, _) = area.detail else {
            throw KeystoreError.damaged("the template is no key")
        }
        let point = key.publicKey.rawRepresentation
        area.detail = .ecc(
            parameters, ECCPoint(x: Array(point.prefix(32)), y: Array(point.suffix(32))))
        return Data(area.marshalled)
    }
}
