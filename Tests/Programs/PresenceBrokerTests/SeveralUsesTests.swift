import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Several uses with one finger, through the real service and the real fprintd.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .softwareTPM,
    .virtualFinger)
struct SeveralUsesTests {
    @Test func `one finger approves two HMACs and the signature of their digest`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let macKey = try await scene.keystore.createMACKey(
                policy: .biometryAny, for: BrokerScene.prompt, authorizedBy: scene.presence)
            let messages = [Data(repeating: 1, count: 32), Data(repeating: 2, count: 32)]
            @Sendable func digest(_ codes: [SecretBytes]) -> MessageDigest {
                MessageDigest(sha256: codes.flatMap { $0.withUnsafeBytes { Array($0) } })
            }
            for round in 1...2 {
                async let shown: Void = scene.reader.present(.finger("mine"))
                let (signature, codes) = try await scene.keystore.sign(
                    with: key, after: messages, with: macKey, for: BrokerScene.prompt,
                    authorizedBy: scene.presence,
                    digest: { digest($0) })
                try await shown
                #expect(key.publicKey.isValid(signature, for: digest(codes)))
                #expect(codes.count == 2)
                #expect(scene.progress.words.count { $0 == .matched } == round, "one finger each")
            }
        }
    }

    @Test func `an unknown ticket, and a request with invalid uses, are refused`() async throws {
        try await BrokerScene.with { scene in
            func refusal(_ body: () async throws(KeystoreError) -> Void) async -> CommonErrorCode? {
                do throws(KeystoreError) {
                    try await body()
                    return nil
                } catch { return error.code }
            }
            let unknown = await refusal { () async throws(KeystoreError) in
                _ = try await scene.client.complete(Data(count: 32), .sign(BrokerScene.digest))
            }
            #expect(unknown == .refused)
            let name = Data([0x00, 0x0b] + [UInt8](repeating: 1, count: 32))
            var request = ApprovalRequest(
                use: .mac(Data(count: 32)), keyName: name, nonceTPM: Data(count: 32),
                policy: .biometryAny,
                context: BrokerScene.prompt)
            request.further = Array(
                repeating: .init(use: nil, keyName: name, nonceTPM: Data(count: 32)), count: 2)
            let two = await refusal { () async throws(KeystoreError) in
                _ = try await scene.client.approve(request)
            }
            #expect(two == .invalidInput)
            #expect(scene.progress.words.isEmpty, "no finger is looked at")
        }
    }
}
