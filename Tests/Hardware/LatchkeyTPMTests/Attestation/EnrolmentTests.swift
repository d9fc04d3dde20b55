import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Attested enrolment of the keystore's keys at the server's verifier.
@Suite(.softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"))
struct EnrolmentTests {
    private typealias Presence = AssuranceLevel.EnforcedPresence

    private func keystore() throws -> TPMKeystore {
        TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
    }

    private func revocableKey(_ keystore: TPMKeystore, _ policy: AccessPolicy) async throws
        -> HardwareKey
    {
        try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
    }

    private func expect(
        _ presence: Presence, of key: HardwareKey, _ keystore: TPMKeystore, _ rig: EnrolmentRig,
        location: SourceLocation = #_sourceLocation
    ) async throws {
        #expect(keystore.isAttestable(key), sourceLocation: location)
        let hasOwnPIN = try TPMKeyBlob(key.blob).protection.pinSalt != nil
        for form in [
            EnrolmentRig.enrolment, .creation, EnrolmentRig.form, .certify, .acme,
        ] {
            let user = ScriptedPresence(pins: "123456")
            let verdict = try await rig.verdict(
                on: key, in: keystore, form: form, authorizedBy: user)
            let needsPIN = hasOwnPIN && [EnrolmentRig.form, .certify, .acme].contains(form)
            #expect(
                user.requests.count == (needsPIN ? 1 : 0), "\(form)", sourceLocation: location)
            #expect(
                verdict.presence == presence && verdict.isSimulated, "\(form)",
                sourceLocation: location)
            #expect(verdict.publicKey == key.publicKey, sourceLocation: location)
        }
        let isRefused = await EnrolmentRig.refusal {
            _ = try await rig.verdict(on: key, in: keystore, require: .presence)
        }
        #expect(
            isRefused == (presence == .none ? .insufficientPresence : nil), sourceLocation: location
        )
        try Scene.expectNothingLoaded("after an attestation")
    }

    @Test func `keys without a broker are proven in all forms, and only an own PIN is asked for`()
        async throws
    {
        let (keystore, rig) = (try keystore(), try EnrolmentRig())
        try await rig.enrol(keystore)
        try await expect(.none, of: Scene.key(keystore, .none), keystore, rig)
        try await expect(.pin, of: Scene.key(keystore, .pin), keystore, rig)
        try await expect(.pin, of: revocableKey(keystore, .pin), keystore, rig)
        try await expect(.none, of: revocableKey(keystore, .none), keystore, rig)
    }

    @Test func `keys of a broker are proven, and only a known approval key proves a finger`()
        async throws
    {
        let rig = try EnrolmentRig()
        try await Scene.withBroker(.matches) { _, keystore, broker in
            try await rig.enrol(keystore)
            let presence = ScriptedPresence([.pin("123456"), .pin("123456")], broker: broker)
            let reuse = try #require(AccessPolicy(.biometryAny, reuseSeconds: 30))
            for (policy, expected, dies) in [
                (AccessPolicy.biometryAny, Presence.finger, false),
                (.biometryCurrentSet, .finger, true),
                (.userPresence, .fingerOrPIN, false), (.pin, .pin, false), (reuse, .finger, false),
            ] {
                let key = try await Scene.key(keystore, policy, presence)
                let authority = try TPMKeyBlob(key.blob).protection.finger?.authority
                let name = Data(try authority?.name.bytes ?? [])
                for form in [
                    EnrolmentRig.enrolment, .creation, EnrolmentRig.form, .certify, .acme,
                ] {
                    let verdict = try await rig.verdict(
                        on: key, in: keystore, form: form, knowing: [name])
                    #expect(verdict.presence == expected, "\(policy) \(form)")
                    #expect(
                        verdict.diesWithFingers == dies
                            && verdict.reuseSeconds == policy.reuseSeconds)
                }
                let unknown = try await rig.verdict(on: key, in: keystore)
                #expect(unknown.presence == (policy.hasFinger ? nil : .pin))
                let code = await EnrolmentRig.refusal {
                    _ = try await rig.verdict(
                        on: key, in: keystore, require: .finger, knowing: [name])
                }
                let accepted: [AccessPolicy] = [.biometryAny, .biometryCurrentSet]
                #expect(
                    code == (accepted.contains(policy) ? nil : .insufficientPresence), "\(policy)")
            }
        }
    }

    @Test
    func
        `a key of the current fingers is attested with its counter, and is lost with another finger`()
        async throws
    {
        let rig = try EnrolmentRig()
        try await Scene.withBroker(.matches) { wire, keystore, broker in
            try await rig.enrol(keystore)
            let key = try await Scene.key(
                keystore, .biometryCurrentSet, ScriptedPresence([], broker: broker))
            wire.forget()
            let attestation = try await keystore.attest(
                key,
                for: AttestationRequest(
                    challenge: Data(count: 16), issuer: EnrolmentRig.issuer, form: .certify))
            #expect(wire.codes.suffix(2) == [.nvCertify, .flushContext])
            guard case .signed(let signed) = attestation.presence?.branches.first else {
                Issue.record("there is no branch for the finger")
                return
            }
            #expect(signed.counter?.certInfo != nil && signed.counter?.signature != nil)
            _ = try await rig.verify(
                attestation, of: key, challenge: Data(count: 16), form: .certify)
        }
    }

    @Test func `a statement is refused for another challenge, key, server or TPM`() async throws {
        let (keystore, rig) = (try keystore(), try EnrolmentRig())
        try await rig.enrol(keystore)
        let (key, other) = (try await Scene.key(keystore), try await Scene.key(keystore))
        let request = AttestationRequest(
            challenge: Data(repeating: 7, count: 32), issuer: EnrolmentRig.issuer,
            form: EnrolmentRig.enrolment)
        let attestation = try await keystore.attest(key, for: request)
        _ = try await rig.verify(attestation, of: key, challenge: request.challenge)
        func code(_ key: HardwareKey, _ challenge: Data, _ form: AttestationRequest.Form) async
            -> AttestationError.Code?
        {
            await EnrolmentRig.refusal {
                _ = try await rig.verify(attestation, of: key, challenge: challenge, form: form)
            }
        }
        #expect(
            await code(key, Data(repeating: 8, count: 32), EnrolmentRig.form) == .wrongChallenge)
        #expect(await code(other, request.challenge, EnrolmentRig.form) == .wrongChallenge)
        let elsewhere = AttestationRequest.Form.webAuthn(
            rpID: "evil.example.com", origin: EnrolmentRig.issuer)
        #expect(await code(key, request.challenge, elsewhere) == .wrongChallenge)
        let stranger = try EnrolmentRig()
        let untrusted = await EnrolmentRig.refusal {
            _ = try await stranger.verify(attestation, of: key, challenge: request.challenge)
        }
        #expect(untrusted == .untrustedAttestationKey)
    }

    @Test func `a key with its own PIN is certified with this PIN only`() async throws {
        let (keystore, rig) = (try keystore(), try EnrolmentRig())
        try await rig.enrol(keystore)
        let key = try await Scene.key(keystore, .pin)
        for form in [EnrolmentRig.form, .certify, .acme] {
            let request = AttestationRequest(
                challenge: Data(count: 16), issuer: EnrolmentRig.issuer, form: form)
            let silent = await Scene.error { () async throws(KeystoreError) in
                _ = try await keystore.attest(key, for: request)
            }
            #expect(silent?.code == .unsupported)
            let wrong = await Scene.error { () async throws(KeystoreError) in
                _ = try await keystore.attest(
                    key, for: request, authorizedBy: ScriptedPresence(pins: "654321"))
            }
            #expect(wrong?.code == .wrongProof && wrong?.underlying?.rawCode == 0x98e)
            try Scene.expectNothingLoaded("after a wrong PIN")
        }
    }

    /// The hash of the creation data would be the same for all keys of a TPM.
    @Test func `statements about the creation of two keys have no hash in common`() async throws {
        let (keystore, rig) = (try keystore(), try EnrolmentRig())
        try await rig.enrol(keystore)
        var hashes: Set<[UInt8]> = []
        for _ in 0..<2 {
            let attestation = try await keystore.attest(
                Scene.key(keystore, .none),
                for: AttestationRequest(
                    challenge: Data(count: 16), issuer: EnrolmentRig.issuer,
                    form: EnrolmentRig.enrolment))
            let said = try Attest(unmarshalling: attestation.statement)
            guard case .creation(_, let hash) = said.statement else {
                Issue.record("it is about something else")
                return
            }
            hashes.insert(hash)
        }
        #expect(hashes.count == 2)
    }
}
