import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// An attacker on the bus forges error responses, which contain no proof: an object seems to be
/// missing in the TPM.
@Suite(.softwareTPM)
struct ForgedAbsenceTests {
    /// TPM_RC_HANDLE of the first handle.
    private static let absent = Wire.error(0x18b)

    enum Denial: CaseIterable {
        /// NV_ReadPublic answers that nothing is there.
        case publicArea
        /// NV_ReadPublic shows another index in the place.
        case otherIndex
        /// NV_UndefineSpace never reaches the TPM, and answers that the index is gone.
        case removal
        /// As before, and GetCapability answers with a proof from an earlier session.
        case replayedProof
        /// As before, and GetCapability answers without a proof.
        case unprovenList
    }

    private func key(
        _ keystore: TPMKeystore, _ policy: AccessPolicy = .pin
    ) async throws -> HardwareKey {
        try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
    }

    private func index(_ key: HardwareKey) throws -> NVIndex {
        try RevocableSecret(#require(key.authorization).blob).index
    }

    private func isThere(_ key: HardwareKey) throws -> Bool {
        let index = try index(key)
        return try Scene.look { try $0.handles(from: index.handle, count: 1) } == [index.handle]
    }

    /// The response to NV_ReadPublic that shows another index.
    private func otherIndex(at place: TPMHandle) throws -> [UInt8] {
        let area = NVPublicArea(
            index: place, attributes: [.authRead, .authWrite, .written], dataSize: 8)
        let response = try TPMWriter(TPM2B(area), area.name)
        return [0x80, 0x01]
            + withUnsafeBytes(of: UInt32(10 + response.bytes.count).bigEndian, Array.init)
            + [0, 0, 0, 0] + response.bytes
    }

    private func deny(_ denial: Denial, _ key: HardwareKey, _ wire: Wire, _ proof: [UInt8]) throws {
        let other = try otherIndex(at: index(key).handle)
        wire.intercept { code, _ in
            switch (denial, code) {
            case (.otherIndex, .nvReadPublic): other
            case (_, .nvReadPublic), (.removal, .nvUndefineSpace): Self.absent
            case (.replayedProof, .getCapability): proof
            // No handles, and no authorization area.
            case (.unprovenList, .getCapability):
                [0x80, 0x01, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
            default: nil
            }
        }
        if denial == .removal {
            wire.intercept { code, _ in code == .nvUndefineSpace ? Wire.error(0x28b) : nil }
        }
    }

    @Test(arguments: Denial.allCases)
    func `a key whose index seems to be missing is not reported as deleted`(_ denial: Denial)
        async throws
    {
        let wire = Wire()
        let tpm = try SoftwareTPM.current
        let keystore = wire.keystore(tpm)
        let gone = try await key(keystore)
        try await keystore.delete(gone)
        wire.forget()
        try await keystore.delete(gone)
        #expect(
            wire.codes == [.nvReadPublic, .startAuthSession, .getCapability, .flushContext],
            "absence is proven")
        let proof = try #require(wire.exchanges.first { $0.code == .getCapability }?.response)
        #expect(proof.starts(with: [0x80, 0x02]), "TPM_ST_SESSIONS: the response carries a proof")

        let copied = try await key(keystore)
        try deny(denial, copied, wire, proof)
        let error = await Scene.error { () async throws(KeystoreError) in
            try await keystore.delete(copied)
        }
        #expect(
            error != nil && error?.code != .wrongDevice && error?.code != .invalidated,
            "\(String(describing: error))")
        wire.behave()
        #expect(try isThere(copied))
        try await Scene.sign(keystore, copied)
        try await keystore.delete(copied)
        #expect(try !isThere(copied))
        try Scene.expectNothingLoaded("at the end")
    }

    /// The TPM removed the index, and the attacker forges an error. A later authenticated response
    /// proves the removal.
    @Test func `after a forged response to a removal, the TPM proves the removal`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await key(keystore)
        wire.tamper { code, response in code == .nvUndefineSpace ? Wire.error(0x28b) : response }
        try await keystore.delete(key)
        #expect(try !isThere(key))
        try Scene.expectNothingLoaded("at the end")
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `a key whose index seems to be missing is not reported as revoked`(_ policy: AccessPolicy)
        async throws
    {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await key(keystore, policy)
        let proof = policy == .none ? TPMCommandCode.nvRead : .policySecret
        for denied in [TPMCommandCode.nvReadPublic, proof] {
            wire.intercept { code, _ in code == denied || code == .nvReadPublic ? Self.absent : nil
            }
            let presence = ScriptedPresence(pins: "123456")
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            if policy == .none, denied == .nvReadPublic {
                #expect(error == nil, "NV_ReadPublic is not sent")
            } else {
                #expect(error?.code == .unavailable, "\(denied): \(String(describing: error))")
            }
            if denied == .nvReadPublic { #expect(presence.requests.isEmpty) }
        }
        wire.intercept { code, _ in code == proof ? Self.absent : nil }
        let denied = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key)
        }
        #expect(denied?.code == .unavailable)
        // TPM_RC_BAD_AUTH of session 1.
        wire.intercept { code, _ in code == proof ? Wire.error(0x9a2) : nil }
        let refused = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key)
        }
        #expect(refused?.code == (policy == .none ? .unavailable : .wrongProof))
        wire.behave()
        try await Scene.sign(keystore, key)
        try Scene.expectNothingLoaded("at the end")
    }

    @Test func `a user's PIN that seems to be missing is not reported as removed`() async throws {
        try await Scene.withBroker { wire, keystore, broker in
            let presence = ScriptedPresence(
                Array(repeating: .pin("123456"), count: 4), broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            for (denied, code) in [
                (TPMCommandCode.nvRead, UInt32(0x18b)), (.nvRead, 0x14a), (.policySecret, 0x12f),
            ] {
                wire.intercept { $1.isEmpty || $0 != denied ? nil : Wire.error(code) }
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
                #expect(error?.code == .unavailable, "\(denied): \(String(describing: error))")
            }
            wire.behave()
            try await Scene.sign(keystore, key, presence)
        }
    }

    @Test func `a forged error for fingers is not reported as changed fingers`() async throws {
        try await Scene.withBroker(.matches, .matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let key = try await Scene.key(keystore, .biometryCurrentSet, presence)
            // TPM_RC_POLICY.
            wire.intercept { code, _ in code == .policyNV ? Wire.error(0x126) : nil }
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == .unavailable, "\(String(describing: error))")
            wire.behave()
            try await Scene.sign(keystore, key, presence)
        }
    }

    /// If the broker forgot the PIN, another program could set a new one.
    @Test func `the broker does not forget a PIN whose index seems to be missing`() async throws {
        let faulty = try FaultyTPM(try SoftwareTPM.current)
        try await TemporaryDirectory.withDirectory { directory in
            let authority = try await ApprovalAuthority(
                tcti: faulty.tcti, directory: directory.path)
            let broker = InProcessBroker(authority, [])
            let keystore = TPMKeystore(
                tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
            let presence = ScriptedPresence(
                Array(repeating: .pin("123456"), count: 2), broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            // The first read of the PIN index after the PIN was set changes the recorded state.
            let isSet = await Scene.error { () async throws(KeystoreError) in
                _ = try await broker.makeUserPIN()
            }
            #expect(isSet?.code == .conflict)
            faulty.arm(.code(0x18b, times: 100), atCommand: TPMCommandCode.nvReadPublic.rawValue)
            let denied = await Scene.error { () async throws(KeystoreError) in
                _ = try await broker.makeUserPIN()
            }
            #expect(denied != nil)
            faulty.arm()
            let still = await Scene.error { () async throws(KeystoreError) in
                _ = try await broker.makeUserPIN()
            }
            #expect(still?.code == .conflict)
            try await Scene.sign(keystore, key, presence)
        }
    }
}
