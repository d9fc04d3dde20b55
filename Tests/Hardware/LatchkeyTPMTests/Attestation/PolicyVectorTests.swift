import Crypto
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Digests that an independent program computed (reference "attestation vectors", sections 1.1 to
/// 1.3).
struct PolicyVectorTests {
    private static let authority = TPMName(
        bytes: [0x00, 0x0b] + Array(SHA256.hash(data: Array("approval key".utf8))))
    private static let fingers = Array(SHA256.hash(data: Array("fingers".utf8)))

    private func hex(_ bytes: [UInt8]?) -> String {
        (bytes ?? []).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    private func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.count, by: 2).compactMap {
            UInt8(hex.dropFirst($0).prefix(2), radix: 16)
        }
    }

    private func finger(_ policy: AccessPolicy, set: [UInt8]? = nil) -> [UInt8] {
        PresenceReference.use(by: 1000, under: policy, enrolmentSet: set)
    }

    @Test func `the policies without inputs`() {
        #expect(
            hex(PresenceProtection.UserPIN.changePolicy.bytes)
                == "363ac945b6457c47c31f3355dba0db27de8db213d6250c6bf79685003f9fe7ab")
        #expect(
            hex(PolicyDigest().secret(of: Hierarchy.endorsement.name).bytes)
                == "837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa", "policy A")
    }

    @Test func `the references`() throws {
        #expect(
            hex(finger(.biometryAny))
                == "6b794c4ff81a7a0b5848b661f19edcd7422319dc02ea6eeabeefed3e3f0e0552")
        #expect(
            hex(finger(try #require(AccessPolicy(.biometryAny, reuseSeconds: 30))))
                == "5f6d5fcca57746112929bfe53e620e418ab6b13ff0b1f89930c305a707a8f847")
        #expect(
            hex(finger(.biometryCurrentSet, set: Self.fingers))
                == "8027e8123933e8fc5ec95c473e6cc63b2be5efd42f081807fcc249b019715d2a")
        #expect(
            hex(PresenceReference.pin(under: .pin))
                == "96d78bae5f54514bbfb14e0df990dc41ffe5fed9410407e2faa1335367cd6cf5")
        #expect(
            hex(PresenceReference.reset(of: 1000, making: Array(0..<16)))
                == "5ace65ec32ad5134783f9700190fb529b516fe338b166460e120ebf3a3617a99")
        #expect(
            hex(PresenceReference.enrolmentChange(of: 1000))
                == "442cd763c7d36fd1c65163e3048b2668e0c70f798d66363cb0291d5315008052")
    }

    @Test func `the policies with a finger or a PIN`() throws {
        let any = PolicyDigest().signed(by: Self.authority, policyRef: finger(.biometryAny))
        #expect(
            hex(any.bytes) == "6a2713e1db23c26b3a922a81eaf3915fada3bfc14d7f3c9707a375d13e995120")
        let index = try NVIndex(
            unmarshalling: bytes(
                "01804c00000b2206008800202a9b8740102b56b840e73756dc7da6d0332d05168dbccd0937475a55811e3f9d0008"
            ))
        let pin = PolicyDigest().secret(
            of: index.name, policyRef: PresenceReference.pin(under: .userPresence))
        #expect(
            hex(pin.bytes) == "9ddfffcb81d2411feb3b32b05894c3396ac7efc6f6315c9d70e1e5ace284c8a6")
        let presence = PolicyDigest().signed(by: Self.authority, policyRef: finger(.userPresence))
        #expect(
            hex(PolicyDigest.or([presence, pin])?.bytes)
                == "b86f57f7344b5c498ed71e9988c8190002db39f41d373fcd0afef1dedec656d9")
        let counter = try NVIndex(
            unmarshalling: bytes(
                "01804c01000b220600180020da3a054f6136e80af6f4f70f97fb742791bc93ecd204d476db61fc76559134c40008"
            ))
        let current = PolicyDigest().nvEquals(UInt64(7).marshalled, in: counter.name).signed(
            by: Self.authority, policyRef: finger(.biometryCurrentSet, set: Self.fingers))
        #expect(
            hex(current.bytes) == "b2f92d046b678892ce16eaac46580cb66ef8ed077e419eae5765962303373077"
        )
    }

    /// The branches of keys as they are created, in the table of section 4.4.
    @Test(.softwareTPM) func `created keys have these attributes and policies`() async throws {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456"), .pin("123456")], broker: broker)
            let own = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
            let request = KeyRequest(policy: .pin, prompt: Scene.prompt)
            let revocable = try await own.createRevocableKey(
                request, authorizedBy: ScriptedPresence(pins: "123456")
            ) { _ in }
            for (key, attributes, branches) in [
                (try await Scene.key(own, .none), UInt32(0x0004_0472), 0),
                (try await Scene.key(own, .pin), 0x0004_0072, 0),
                (revocable, 0x0004_0432, 1),
                (try await Scene.key(keystore, .biometryAny, presence), 0x0004_0432, 1),
                (try await Scene.key(keystore, .biometryCurrentSet, presence), 0x0004_0432, 1),
                (try await Scene.key(keystore, .userPresence, presence), 0x0004_0432, 2),
                (try await Scene.key(keystore, .pin, presence), 0x0004_0432, 1),
            ] {
                let blob = try TPMKeyBlob(key.blob)
                let own = try blob.branches(under: key.policy)
                #expect(blob.key.publicArea.attributes.rawValue == attributes, "\(key.policy)")
                #expect(own.count == branches)
                let digest = PolicyDigest.or(own) ?? own.first
                #expect(blob.key.publicArea.authPolicy == digest?.bytes ?? [])
            }
        }
    }
}
