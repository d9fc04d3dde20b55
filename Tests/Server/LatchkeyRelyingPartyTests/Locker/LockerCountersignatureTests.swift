import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@Suite("Locker countersignatures") struct LockerCountersignatureTests {
    private static let prefix = "vnd.latchkey.locker-countersignature:"

    @Test func `the signed bytes have the protocol's prefix`() async throws {
        #expect(LockerCountersignature.prefix == Self.prefix)
        let rig = try await LockerRig()
        let assertion = try await assertion(rig)
        let parts = assertion.split(separator: ".")
        let signature = try rig.device.signature(over: "\(Self.prefix)\(parts[0]).\(parts[1])")
        try await rig.verify(assertion, as: .easyAccessEnable, countersignature: signature)
    }

    @Test func `only the enrolment's device can countersign`() async throws {
        let rig = try await LockerRig()
        let other = LockerTestKey()
        try await rig.registry.add(
            LockerRig.enrolment(of: "alice", device: other), shares: nil, limit: 2)
        let new = LockerTestKey()
        // The new key itself, an existing easy-access key, the key of another device of the user,
        // an unknown key, and a key with only the device key's name.
        for signer in [new, rig.easyAccess, other, LockerTestKey(), rig.device.impostor] {
            let assertion = try await assertion(rig, by: new)
            try await expectNotCountersigned(rig, assertion, signer.countersignature(of: assertion))
        }
    }

    @Test func `a countersignature is valid for one assertion, and other signatures are refused`()
        async throws
    {
        let rig = try await LockerRig()
        let new = LockerTestKey()
        let (assertion, seen) = (
            try await assertion(rig, by: new), try await assertion(rig, by: new)
        )
        let input = assertion.split(separator: ".").prefix(2).joined(separator: ".")
        for signature in [
            try rig.device.countersignature(of: seen), try rig.device.signature(over: input),
            try rig.device.signature(over: assertion),
            try rig.device.signature(over: Self.prefix + assertion),
            try rig.device.signature(over: Self.prefix),
            Base64URL.encode(Data(repeating: 0, count: 64)),
        ] {
            try await expectNotCountersigned(rig, self.assertion(rig, by: new), signature)
        }
        // The device's signature over its own assertion is not a countersignature.
        let background = try rig.assertion(
            .backgroundAccess, challenge: try await rig.challenge(for: .backgroundAccess))
        let own = String(try #require(background.split(separator: ".").last))
        try await expectNotCountersigned(rig, self.assertion(rig, by: new), own)
    }

    @Test func `a malformed one is refused and does not use the challenge`() async throws {
        let rig = try await LockerRig()
        let assertion = try await assertion(rig)
        let good = try rig.device.countersignature(of: assertion)
        let der = try P256.Signing.ECDSASignature(
            rawRepresentation: #require(Base64URL.decode(good))
        ).derRepresentation
        for flawed in [
            "", "x", good + "==", String(good.dropLast()), good + "AA", "*" + good.dropFirst(),
            Base64URL.encode(der),
            Base64URL.encode(Data(count: 63)), Base64URL.encode(Data(count: 65)),
            String(repeating: "A", count: 100_000),
        ] {
            let code = await rig.refusal(
                of: assertion, as: .easyAccessEnable, countersignature: flawed)
            #expect(code == .malformed, "\(flawed.prefix(100))")
        }
        try await rig.verify(assertion, as: .easyAccessEnable, countersignature: good)
    }

    private func assertion(_ rig: LockerRig, by key: LockerTestKey = LockerTestKey()) async throws
        -> String
    {
        try rig.assertion(
            .easyAccessEnable, key: key, challenge: try await rig.challenge(for: .easyAccessEnable))
    }

    /// Expects that the assertion is refused and uses the challenge.
    private func expectNotCountersigned(
        _ rig: LockerRig, _ assertion: String, _ signature: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let refusal = await rig.refusal(
            of: assertion, as: .easyAccessEnable, countersignature: signature,
            sourceLocation: sourceLocation)
        #expect(refusal == .invalidCountersignature, sourceLocation: sourceLocation)
        let again = await rig.refusal(
            of: assertion, as: .easyAccessEnable, sourceLocation: sourceLocation)
        #expect(again == .challengeRejected, sourceLocation: sourceLocation)
    }
}
