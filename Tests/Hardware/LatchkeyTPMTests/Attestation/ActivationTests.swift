import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// The activation of attestation keys, and the store of their certificates.
@Suite(.softwareTPM(.endorsementCertificate), .requires(program: "swtpm_setup"))
struct ActivationTests {
    private static let issuer = EnrolmentRig.issuer
    private static let rsaCertificate = TPMHandle(rawValue: 0x01c0_0002)
    private static let p384Certificate = TPMHandle(rawValue: 0x01c0_0016)
    private static let p384Handle = TPMHandle(rawValue: 0x8101_0016)

    private func remove(_ index: TPMHandle) throws {
        try Scene.look { tpm in
            // swtpm_setup defines it with the platform's authorization, which stays empty without
            // firmware.
            try tpm.execute(NVUndefineSpace(tpm.execute(NVReadPublic(index)), by: .platform))
        }
    }

    private func evict(_ handle: TPMHandle) throws {
        try Scene.look { tpm in
            try tpm.execute(EvictControl(tpm.execute(ReadPublic(handle)), at: handle))
        }
    }

    private func certificateAnchor(_ issuer: String = issuer) -> String {
        "tpm/attestation-certificate/\(issuer)"
    }

    /// Indices in the range of certificates that another program defined: never written, with a
    /// password and with dictionary-attack protection, and with other bytes.
    @Test(.requires(program: "tpm2_nvdefine"))
    func `another program's index is no certificate, and costs no attempt`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        func tool(_ name: String, _ arguments: String...) async throws {
            try await SystemProgram(name, environment: ["TPM2TOOLS_TCTI": tcti]).require(arguments)
        }
        let file = try TemporaryDirectory()
        let text = file.path(of: "text")
        try Data("no certificate".utf8).write(to: URL(filePath: text))
        let attributes = "ownerread|ownerwrite|authread|authwrite"
        for (index, more, password) in [
            ("0x1c0000a", "|no_da", ""), ("0x1c00014", "", "secret"),
            ("0x1c00100", "|no_da", "secret"), ("0x1c00101", "", "secret"),
            ("0x1c00102", "|no_da", ""),
        ] {
            try await tool(
                "tpm2_nvdefine", "-C", "o", "-s", "14", "-a", attributes + more, "-p", password,
                index)
            if index != "0x1c0000a" {
                try await tool("tpm2_nvwrite", "-C", "o", "-i", text, index)
            }
        }
        let rig = try EnrolmentRig()
        let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
        try await rig.enrol(keystore)
        #expect(
            try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                .lockoutCounter: 0
            ])
    }

    // MARK: The budget

    @Test func `enrolment takes fifteen commands, and an attestation nine`() async throws {
        let (wire, rig) = (Wire(), try EnrolmentRig())
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore, .pin)
        wire.forget()
        let identity = try await keystore.attestationIdentity(for: Self.issuer)
        #expect(
            wire.codes == [
                // The attestation key.
                .startAuthSession, .create,
                // The certificate of 512 to 1024 bytes, and the endorsement key.
                .getCapability, .nvReadPublic, .nvRead, .nvRead, .readPublic,
                // Those of the RSA key.
                .nvReadPublic, .nvRead, .nvRead, .readPublic,
            ])
        let (challenge, pending) = try rig.challenge(identity)
        wire.forget()
        let secret = try await keystore.activate(challenge, for: Self.issuer)
        // At its first use, a simulator asks for the command again.
        #expect(
            wire.codes.filter { $0 != .activateCredential } == [
                .load, .startAuthSession, .flushContext,
            ])
        let certificates = try rig.authority.certificate(
            for: pending, secret: secret.withUnsafeBytes { Data($0) })
        wire.forget()
        try await keystore.keepAttestationCertificates(certificates, for: Self.issuer)
        #expect(wire.codes.isEmpty)
        #expect(
            secret.withUnsafeBytes { wire.bytes.firstRange(of: Array($0)) } == nil,
            "the secret is encrypted")
        let request = AttestationRequest(
            challenge: Data(count: 32), issuer: Self.issuer, form: EnrolmentRig.enrolment)
        _ = try await keystore.attest(key, for: request)
        let created: [TPMCommandCode] = [
            .load, .load, .certifyCreation, .flushContext, .flushContext,
        ]
        #expect(wire.codes == created)
        let certified = AttestationRequest(
            challenge: Data(count: 32), issuer: Self.issuer, form: EnrolmentRig.form)
        wire.forget()
        _ = try await keystore.attest(
            key, for: certified, authorizedBy: ScriptedPresence(pins: "123456"))
        // At the first use of a PIN, a simulator asks for the command again.
        // The first one compares the TPM with that of the key, before the prompt.
        #expect(
            wire.codes.filter { $0 != .certify } == [
                .readPublic, .getCapability, .load, .load, .startAuthSession, .flushContext,
                .flushContext,
            ])
        let revocable = try await keystore.createRevocableKey(
            KeyRequest(policy: .pin, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
        wire.forget()
        _ = try await keystore.attest(revocable, for: request)
        #expect(wire.codes == created)
        wire.forget()
        _ = try await keystore.attest(revocable, for: certified)
        #expect(
            wire.codes == [.load, .load, .certify, .flushContext, .flushContext],
            "the empty authValue needs no session")
        try Scene.expectNothingLoaded("after the enrolment")
    }

    // MARK: Endorsement keys

    @Test(.timeLimit(.minutes(60)))
    func `an RSA endorsement key activates, persistent or derived from its template`()
        async throws
    {
        let (wire, rig) = (Wire(), try EnrolmentRig())
        try remove(Self.p384Certificate)
        try await rig.enrol(wire.keystore(try SoftwareTPM.current))
        #expect(wire.codes.contains(.policySecret), "a key of the low range needs a policy session")
        try evict(TPMHandle(rawValue: 0x8101_0001))
        wire.forget()
        try await rig.enrol(wire.keystore(try SoftwareTPM.current))
        #expect(wire.codes.count { $0 == .createPrimary } >= 2)
        try Scene.expectNothingLoaded("after the activations")
    }

    @Test func `an endorsement key on P-384 at another handle or only as a template activates`()
        async throws
    {
        let (wire, rig) = (Wire(), try EnrolmentRig())
        try Scene.look { tpm in
            let object = try tpm.execute(ReadPublic(Self.p384Handle))
            try tpm.execute(EvictControl(object, at: Self.p384Handle))
        }
        try await rig.enrol(wire.keystore(try SoftwareTPM.current))
        #expect(wire.codes.contains(.createPrimary))
        #expect(!wire.codes.contains(.policySecret))
    }

    /// Creates the certificate of the TPM's endorsement key on P-256, which comes before the others.
    ///
    /// - Returns: The root of its issuer, which has not issued the others.
    private func addP256Certificate(_ tpm: SoftwareTPM) async throws -> Data {
        try await TemporaryDirectory.withDirectory { directory in
            let tools = TPMTools(tpm, in: directory)
            try await tools(
                "tpm2_createek", "-G", "ecc", "-c", tools.path("ek.ctx"), "-u", tools.path("ek.pub")
            )
            let area = try PublicArea(unmarshalling: tools.bytes("ek.pub").dropFirst(2))
            let issued = try await WebAuthnLibraries.certificate(
                for: #require(area.p256Point?.p256Representation), purpose: "2.23.133.8.1")
            try issued.x5c[0].write(to: URL(filePath: tools.path("ek.der")))
            try await tools(
                "tpm2_nvdefine", "0x01C0000A", "-C", "o", "-s", "\(issued.x5c[0].count)", "-a",
                "ownerread|authread|ownerwrite|no_da")
            try await tools("tpm2_nvwrite", "0x01C0000A", "-C", "o", "-i", tools.path("ek.der"))
            return issued.x5c[1]
        }
    }

    @Test(.requiresWebAuthnLibraries, .requires(program: "tpm2_createek"))
    func `an endorsement key on P-256 activates, derived from its template`() async throws {
        let tpm = try SoftwareTPM.current
        let root = try await addP256Certificate(tpm)
        let (wire, rig) = (Wire(), try EnrolmentRig(endorsement: .init(roots: [root])))
        let keystore = wire.keystore(tpm)
        try await rig.enrol(keystore)
        #expect(wire.codes.contains(.createPrimary) && wire.codes.contains(.policySecret))
        _ = try await rig.verdict(on: Scene.key(keystore, .none), in: keystore)
    }

    @Test(.requiresWebAuthnLibraries, .requires(program: "tpm2_createek"))
    func `a server that trusts only the issuer of a later certificate activates that key`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        _ = try await addP256Certificate(tpm)
        // Of the certificates, this server trusts those of P-384 and RSA.
        let rig = try EnrolmentRig()
        for count in [3, 2] {
            let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
            #expect(
                try await keystore.attestationIdentity(for: Self.issuer).endorsementCertificates
                    .count == count)
            try await rig.enrol(keystore)
            _ = try await rig.verdict(on: Scene.key(keystore, .none), in: keystore)
            if count == 3 { try remove(Self.p384Certificate) }
        }
        try Scene.expectNothingLoaded("after the activations")
    }

    @Test
    func `without a certificate for a key of the TPM, there is no endorsement and no activation`()
        async throws
    {
        try remove(Self.p384Certificate)
        try remove(Self.rsaCertificate)
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        #expect(
            try await keystore.attestationIdentity(for: Self.issuer).endorsementCertificates.isEmpty
        )
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.activate(
                ActivationChallenge(
                    credentialBlob: Data(count: 68), encryptedSecret: Data(count: 68)),
                for: Self.issuer)
        }
        #expect(error?.code == .unsupported)
    }

    /// Another TPM's certificate in the index of this one: the public keys differ.
    @Test func `a certificate of another endorsement key is not used`() async throws {
        let own = try Scene.look { try $0.endorsementKeys()?.certificates.first }
        try await SoftwareTPM.withRunning(.endorsementCertificate) { other in
            let keystore = TPMKeystore(tcti: other.tcti, anchors: MemoryTrustAnchors())
            let theirs = try #require(
                try await keystore.attestationIdentity(for: Self.issuer).endorsementCertificates
                    .first)
            #expect(theirs != own)
            try remove(Self.p384Certificate)
            try remove(Self.rsaCertificate)
            try Scene.look { tpm in
                let area = NVPublicArea(
                    index: Self.p384Certificate,
                    attributes: [.ownerWrite, .ownerRead, .authRead, .authWrite, .noDA],
                    dataSize: UInt16(min(theirs.count, 512)))
                let index = try tpm.execute(NVDefineSpace(area))
                try tpm.execute(NVWrite(SensitiveData(Array(theirs.prefix(512))), to: index))
            }
        }
        #expect(try Scene.look { try $0.endorsementKeys() } == nil)
    }

    @Test func `a challenge for another TPM, key or with a changed byte is refused`() async throws {
        let rig = try EnrolmentRig()
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let identity = try await keystore.attestationIdentity(for: Self.issuer)
        _ = try await keystore.attestationIdentity(for: "https://other.example.com")
        let right = try rig.challenge(identity).challenge
        var changed = right
        changed.credentialBlob[changed.credentialBlob.count - 1] ^= 1
        for (challenge, issuer) in [(changed, Self.issuer), (right, "https://other.example.com")] {
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await keystore.activate(challenge, for: issuer)
            }
            #expect(error?.code == .refused && error?.underlying?.rawCode == 0x1df)
        }
        try await SoftwareTPM.withRunning(.endorsementCertificate) { other in
            let stranger = TPMKeystore(tcti: other.tcti, anchors: MemoryTrustAnchors())
            _ = try await stranger.attestationIdentity(for: Self.issuer)
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await stranger.activate(right, for: Self.issuer)
            }
            #expect(error?.code == .refused)
        }
        try Scene.expectNothingLoaded("after the refusals")
        _ = try await keystore.activate(right, for: Self.issuer)
    }

    // MARK: The store

    @Test func `two issuers get two keys, and forgetting one creates another one`() async throws {
        let rig = try EnrolmentRig()
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let issuers = [Self.issuer, "https://other.example.com", ""]
        var keys: [Data] = []
        for issuer in issuers {
            try await rig.enrol(keystore, for: issuer)
            let identity = try await keystore.attestationIdentity(for: issuer)
            #expect(!identity.needsActivation() && identity.certificates.count == 2)
            keys.append(identity.attestationKey)
        }
        #expect(Set(keys).count == 3)
        #expect(try await keystore.attestationIssuers() == issuers.sorted())
        try await keystore.forgetAttestation(for: Self.issuer)
        try await keystore.forgetAttestation(for: Self.issuer)
        #expect(try await keystore.attestationIssuers() == issuers.dropFirst().sorted())
        let fresh = try await keystore.attestationIdentity(for: Self.issuer)
        #expect(!keys.contains(fresh.attestationKey) && fresh.needsActivation())
        #expect(try await keystore.attestationIdentity(for: issuers[1]).attestationKey == keys[1])
    }

    /// The process ended after the activation and before the certificate was stored, or the
    /// certificate was lost.
    @Test func `after a power cut the same key is activated again`() async throws {
        let (rig, anchors) = (try EnrolmentRig(), MemoryTrustAnchors())
        let tpm = try SoftwareTPM.current
        let keystore = TPMKeystore(tcti: tpm.tcti, anchors: anchors)
        let key = try await Scene.key(keystore, .none)
        let first = try await keystore.attestationIdentity(for: Self.issuer)
        _ = try await keystore.activate(rig.challenge(first).challenge, for: Self.issuer)
        await tpm.cutPower()
        try await tpm.start()
        let restarted = TPMKeystore(tcti: tpm.tcti, anchors: anchors)
        let second = try await restarted.attestationIdentity(for: Self.issuer)
        #expect(second.attestationKey == first.attestationKey && second.needsActivation())
        let request = AttestationRequest(
            challenge: Data(count: 16), issuer: Self.issuer, form: EnrolmentRig.form)
        let missing = await Scene.error { () async throws(KeystoreError) in
            _ = try await restarted.attest(key, for: request)
        }
        #expect(missing?.code == .wrongState)
        try await rig.enrol(restarted)
        _ = try await rig.verdict(on: key, in: restarted)
        try await anchors.replaceAnchor(certificateAnchor(), with: nil)
        #expect(try await restarted.attestationIdentity(for: Self.issuer).needsActivation())
        try await rig.enrol(restarted)
        _ = try await rig.verdict(on: key, in: restarted)
    }

    @Test func `a certificate of another key, a damaged one and an expired one count as none`()
        async throws
    {
        let (rig, anchors) = (try EnrolmentRig(), MemoryTrustAnchors())
        let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: anchors)
        try await rig.enrol(keystore)
        try await rig.enrol(keystore, for: "https://other.example.com")
        let other = try #require(
            try await anchors.anchor(certificateAnchor("https://other.example.com")))
        let own = try #require(try await anchors.anchor(certificateAnchor()))
        for bytes in [other, own.dropLast(), Data(), Data([2]) + own.dropFirst()] {
            try await anchors.replaceAnchor(certificateAnchor(), with: Data(bytes))
            #expect(try await keystore.attestationIdentity(for: Self.issuer).certificates.isEmpty)
        }
        let certificates = try #require(StoredCertificates.decode(other))
        let error = await Scene.error { () async throws(KeystoreError) in
            try await keystore.keepAttestationCertificates(certificates, for: Self.issuer)
        }
        #expect(error?.code == .invalidInput)
    }

    @Test func `a certificate is renewed after two thirds of its time`() async throws {
        let rig = try EnrolmentRig(days: 90)
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        try await rig.enrol(keystore)
        let identity = try await keystore.attestationIdentity(for: Self.issuer)
        let expiry = try #require(identity.expiresAt)
        #expect(abs(expiry.timeIntervalSinceNow - 90 * 86_400) < 86_400)
        #expect(!identity.needsActivation(at: Date(timeIntervalSinceNow: 55 * 86_400)))
        #expect(identity.needsActivation(at: Date(timeIntervalSinceNow: 65 * 86_400)))
        #expect(identity.needsActivation(at: Date(timeIntervalSinceNow: 100 * 86_400)))
    }

    @Test func `the statement of a key contains no endorsement certificate`() async throws {
        let rig = try EnrolmentRig()
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        try await rig.enrol(keystore)
        let endorsement = try #require(
            try await keystore.attestationIdentity(for: Self.issuer).endorsementCertificates.first)
        let key = try await Scene.key(keystore, .none)
        for form in [
            AttestationRequest.Form.creation, .certify, .acme, EnrolmentRig.form,
            EnrolmentRig.enrolment,
        ] {
            let attestation = try await keystore.attest(
                key,
                for: AttestationRequest(challenge: Data(count: 16), issuer: Self.issuer, form: form)
            )
            #expect(!attestation.certificates.contains(endorsement))
            #expect(attestation.object?.firstRange(of: endorsement) == nil)
        }
    }
}
