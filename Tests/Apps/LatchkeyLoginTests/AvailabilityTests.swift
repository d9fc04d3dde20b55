import FoundationEssentials
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The availability of biometric login, its obstacles, and the policy of a new key.
@Suite(.softwareTPM)
struct AvailabilityTests {
    private func with(_ body: (Bench, SteadyBroker) async throws -> Void) async throws {
        try await Bench.with { bench in
            let authority = try await ApprovalAuthority(
                tcti: bench.tpm.tcti, directory: bench.directory.path)
            try await body(bench, SteadyBroker(authority: authority))
        }
    }

    private func presence(_ broker: SteadyBroker, preferring preference: PresencePreference = .any)
        -> ScriptedPresence
    {
        ScriptedPresence(
            Array(repeating: .pin(Bench.pin), count: 4), broker: broker, preferring: preference)
    }

    @Test func `each obstacle to fingerprint verification has its reason`() async throws {
        try await with { bench, broker in
            let until = Date(timeIntervalSince1970: 2_000_000_000)
            let cases: [(FingerState, BiometricAvailability)] = [
                (.ready, .available), (.notEnrolled, .notEnrolled),
                (
                    .notAvailable("there is no fingerprint reader"),
                    .notAvailable("there is no fingerprint reader")
                ),
                (.lockedOut(until: until), .lockedOut(until: until)),
            ]
            for (state, expected) in cases {
                var broker = broker
                broker.state = state
                let container = try await bench.start(
                    presence: presence(broker), policy: .biometryAny)
                #expect(await container.biometricAvailability() == expected)
                #expect(await container.isBiometricAvailable() == (expected == .available))
            }
            let alone = try await bench.start(policy: .biometryAny)
            #expect(
                await alone.biometricAvailability()
                    == .notAvailable("this program cannot prompt for a fingerprint"))
            let absent = try await bench.start(
                presence: presence(broker), keystore: AbsentKeystore())
            #expect(await absent.biometricAvailability() == .notAvailable("it is not available"))
        }
    }

    @Test func `a policy without user verification, which cannot be enabled, is not available`()
        async throws
    {
        try await Bench.with { bench in
            let container = try await bench.start(policy: AccessPolicy.none)
            #expect(await !container.isBiometricAvailable())
            #expect(await container.biometricAvailability(under: .pin) == .available)
            try await container.authorize()
            await #expect(throws: keystore(.invalidInput)) {
                try await container.enabledBiometric()
            }
        }
    }

    @Test func `the hardware is queried once, and not at all without a fingerprint sensor`()
        async throws
    {
        try await with { bench, broker in
            func looks(_ presence: ScriptedPresence, _ body: (Container) async throws -> Void)
                async throws -> Int
            {
                let store = try await RecordStore(directory: bench.directory.path)
                let keystore = CountingKeystore(TPMKeystore(tcti: bench.tpm.tcti, anchors: store))
                let container = try await bench.start(
                    name: UUID().uuidString, presence: presence, policy: nil, keystore: keystore)
                try await body(container)
                return keystore.calls.filter { $0 == "capabilities" }.count
            }
            let alone = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 4))
            let look = { (container: Container) in
                let isAvailable = await container.isBiometricAvailable()
                #expect(isAvailable)
            }
            let (withBroker, without) = try await (
                looks(presence(broker), look), looks(alone, look)
            )
            #expect(withBroker == 1 && without == 1)
            let enabling = try await looks(alone) { container in
                try await container.authorize()
                let key = try await container.enableBiometric()
                #expect(key.key.policy == .pin)
            }
            #expect(enabling == 0)
        }
    }

    @Test func `after a finger lockout the PIN works, and after a PIN lockout the finger`()
        async throws
    {
        try await with { bench, broker in
            var locked = broker
            locked.state = .lockedOut(until: nil)
            let either = try await bench.start(presence: presence(locked), policy: .userPresence)
            #expect(await either.biometricAvailability() == .available)
        }
    }

    @Test
    func `a new key requires a finger or the PIN if a finger can be verified, otherwise the PIN`()
        async throws
    {
        try await with { bench, broker in
            let container = try await bench.start(presence: presence(broker), policy: nil)
            try await container.authorize()
            #expect(try await container.enableBiometric().key.policy == .userPresence)
            #expect(try await container.authenticateBiometric().userInfo.userID == "user-a")
            let cautious = try await bench.start(
                name: "pin", presence: presence(broker, preferring: .pin), policy: nil)
            try await cautious.authorize()
            #expect(try await cautious.enableBiometric().key.policy == .pin)
            var unready = broker
            unready.state = .notEnrolled
            let plain = try await bench.start(
                name: "plain", presence: presence(unready), policy: nil)
            try await plain.authorize()
            #expect(try await plain.enableBiometric().key.policy == .pin)
        }
    }
}
