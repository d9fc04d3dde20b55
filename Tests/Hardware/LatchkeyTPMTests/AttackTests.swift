import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Attacks by a same-user process with access to the store, the blob and the TPM. The TPM refuses
/// each one with a specific code.
@Suite(.softwareTPM)
struct AttackTests {
    private func with(
        _ policy: AccessPolicy,
        _ body: (Attacker, InProcessBroker, TPMKeystore, HardwareKey) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let broker = InProcessBroker(
                try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path), [])
            let anchors = MemoryTrustAnchors()
            let keystore = TPMKeystore(tcti: tpm.tcti, anchors: anchors)
            let presence = ScriptedPresence(
                policy.requirement == .userPresence ? [.pin("123456")] : [], broker: broker)
            let key = try await Scene.key(keystore, policy, presence)
            try await body(try await Attacker(key, anchors: anchors), broker, keystore, key)
            try Scene.expectNothingLoaded("after the attacks")
        }
    }

    @Test func `no proof at all`() async throws {
        try await with(.biometryAny) { attacker, _, _, _ in
            let empty = try await Attacker.sign(attacker) { _, _ in }
            #expect(empty == 0x99d, "a policy session without any assertion")
            try Scene.look { tpm in
                let parent = try TPMObject(
                    handle: .storageRootKey, publicArea: attacker.root.publicArea)
                try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                    do throws(TPMError) {
                        _ = try attacker.use(tpm, .continuing(session))
                        Issue.record("the key has no authValue")
                    } catch {
                        #expect(error.responseCode?.rawValue == 0x12f, "the empty authValue")
                    }
                }
            }
            for code in [TPMCommandCode.sign, .certify] {
                let named = try await Attacker.sign(attacker) { tpm, session in
                    try tpm.execute(PolicyCommandCode(code), in: session)
                }
                #expect(named == 0x99d, "the name of a command")
            }
            do {
                _ = try Scene.look { tpm in try attacker.use(tpm, .emptyPassword) }
                Issue.record("the key accepts a password")
            } catch let error as TPMError {
                #expect(error.responseCode?.rawValue == 0x12f, "the empty password")
            }
        }
    }

    /// `TPM2_Certify` has two authorized handles. A policy that permits the command for the key as
    /// object would permit it for the key as signer, of a statement about any object with any
    /// challenge.
    @Test(arguments: [AccessPolicy.biometryAny, .biometryCurrentSet, .userPresence])
    func `a statement signed by the key`(_ policy: AccessPolicy) async throws {
        try await with(policy) { attacker, _, _, _ in
            let assertions: [[any PolicyAssertion]] = [
                [], [PolicyCommandCode(.certify)],
                [PolicyCommandCode(.certify), PolicyAuthValue()],
            ]
            #expect(try attacker.certifiesParent(nil) == 0x12f, "the empty authValue")
            for satisfied in assertions {
                let code = try attacker.certifiesParent { tpm, session in
                    for assertion in satisfied { try tpm.satisfy(assertion, in: session) }
                    // PolicyOR refuses a session without a satisfied branch.
                    try? attacker.join(tpm, session)
                }
                #expect(code == 0xa9d, "\(satisfied.count) assertions")
            }
        }
    }

    /// The authValue of a key that only its policy opens authorizes its own change.
    @Test(arguments: [AccessPolicy.biometryAny, .userPresence])
    func `a changed authValue`(_ policy: AccessPolicy) async throws {
        try await with(policy) { attacker, _, _, _ in
            let authValue = try #require([UInt8](0..<32).withUnsafeBytes { AuthValue($0) })
            let changed = try attacker.changing(to: authValue)
            let code = Scene.code {
                try Scene.look { tpm in
                    try tpm.withSession(.hmac, saltedTo: nil) { (session) throws(TPMError) in
                        _ = try changed.use(tpm, .lastUse(of: session, authValue: authValue))
                    }
                }
            }
            #expect(code == 0x12f, "the new authValue")
            let proven = try await Attacker.sign(changed, authValue: authValue) { tpm, session in
                try tpm.execute(PolicyAuthValue(), in: session)
                try? changed.join(tpm, session)
            }
            #expect(proven == 0x99d, "the new authValue in a policy session")
            #expect(try changed.certifiesParent(nil) == 0x12f)
        }
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `the copy of a revoked key`(_ policy: AccessPolicy) async throws {
        let anchors = MemoryTrustAnchors()
        let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: anchors)
        let key = try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
        let thief = try await Thief(key, anchors: anchors)
        try await keystore.delete(key)
        // A key without a PIN has a random authValue, which was in the index.
        let refusal: UInt32 = policy == .pin ? 0x12f : 0x9a2
        #expect(try thief.signs() == refusal)
        #expect(try thief.certifiesParent(nil) == (policy == .pin ? 0x12f : 0xaa2))
        for code in [TPMCommandCode.sign, .certify] {
            let certified = try thief.certifiesParent { tpm, session in
                try tpm.execute(PolicyCommandCode(code), in: session)
            }
            #expect(certified == 0xa9d, "the name of a command")
        }
        try Scene.expectNothingLoaded("after the attempts")
    }

    @Test func `an approval with another key's signature`() async throws {
        try await with(.biometryAny) { attacker, broker, _, _ in
            let refused = try await Attacker.sign(attacker) { tpm, session in
                let forged = P256.Signing.PrivateKey()
                let approval = try attacker.approval(
                    PresenceApproval(expiration: 30, signature: try #require(.zero)),
                    nonce: session.nonceTPM)
                let raw = Array(try forged.signature(for: approval.digest).rawRepresentation)
                let signature = TPMSignature.ecdsa(
                    hash: .sha256, r: Array(raw[..<32]), s: Array(raw[32...]))
                try tpm.execute(
                    PolicySigned(approval, signature: signature, by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(refused == 0x5db, "signed by a key of the attacker's")
            var old: PresenceApproval?
            let replayed = try await Attacker.sign(attacker) { tpm, session in
                broker.show(.matches)
                let approval = try await broker.given(attacker.request(session))
                old = approval
                try tpm.execute(
                    PolicySigned(
                        attacker.approval(approval, nonce: session.nonceTPM),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(replayed == nil, "the control: with the finger it signs")
            let approval = try #require(old)
            let again = try await Attacker.sign(attacker) { tpm, session in
                try tpm.execute(
                    PolicySigned(
                        attacker.approval(approval, nonce: session.nonceTPM),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(again == 0x5db, "an approval of an earlier session")
        }
    }

    @Test func `an approval for another digest or key`() async throws {
        try await with(.biometryAny) { attacker, broker, keystore, _ in
            let other = MessageDigest(sha256: Array("another message".utf8))
            let refused = try await Attacker.sign(attacker, digest: other) { tpm, session in
                broker.show(.matches)
                let approval = try await broker.given(attacker.request(session))
                try tpm.execute(
                    PolicySigned(
                        attacker.approval(approval, nonce: session.nonceTPM),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(refused == 0x99d, "another digest than the approved one")
            let victim = try await Scene.key(
                keystore, .biometryAny, ScriptedPresence([], broker: broker))
            let target = try TPMKeyBlob(victim.blob)
            let again = try await Attacker.sign(attacker) { tpm, session in
                broker.show(.matches)
                var request = try attacker.request(session)
                request.keyName = Data(try target.key.publicArea.name.bytes)
                let approval = try await broker.given(request)
                try tpm.execute(
                    PolicySigned(
                        Approval(
                            nonceTPM: session.nonceTPM, expiration: approval.expiration,
                            commandHash: Sign(
                                Scene.digest.bytes,
                                with: NamedHandle(named: target.key.publicArea.name)
                            ).hash,
                            policyRef: attacker.reference),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(again == 0x99d, "another key than the approved one")
        }
    }

    @Test(arguments: [AccessPolicy.biometryAny, .userPresence])
    func `an approval for another user`(_ policy: AccessPolicy) async throws {
        try await with(policy) { attacker, broker, _, _ in
            let stranger: UInt32 = 1001
            let refused = try await Attacker.sign(attacker) { tpm, session in
                broker.show(.approvesFor(stranger))
                let approval = try await broker.given(attacker.request(session))
                let reference = PresenceReference.use(
                    by: stranger, under: policy, enrolmentSet: nil)
                try tpm.execute(
                    PolicySigned(
                        attacker.approval(approval, nonce: session.nonceTPM, reference: reference),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(
                refused == (policy == .userPresence ? 0x1c4 : 0x99d),
                "PolicyOR refuses the branch, or the TPM the policy")
        }
    }

    /// The signed message joins the nonce, the expiration and the cpHash without separators, so a
    /// nonce of another length could contain another expiration or command.
    @Test(arguments: [0, 16, 20, 31, 33, 64]) func `a nonce of another length`(_ count: Int)
        async throws
    {
        try await with(.biometryAny) { attacker, broker, _, _ in
            try Scene.look { tpm in
                try tpm.withSession(.policy, saltedTo: nil) { (session) throws(TPMError) in
                    #expect(session.nonceTPM.count == 32)
                }
            }
            var request = ApprovalRequest(
                use: .sign(Scene.digest),
                keyName: Data(try attacker.blob.key.publicArea.name.bytes),
                nonceTPM: Data(repeating: 1, count: 32), policy: .biometryAny, context: Scene.prompt
            )
            broker.show(.matches, .matches)
            _ = try await broker.given(request)
            request.nonceTPM = Data(repeating: 1, count: count)
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await broker.approve(request)
            }
            #expect(error?.code == .invalidInput)
        }
    }

    @Test func `an approval for a weaker policy`() async throws {
        let lax = try #require(AccessPolicy(.biometryAny, reuseSeconds: 300))
        try await with(.biometryAny) { attacker, broker, _, _ in
            let refused = try await Attacker.sign(attacker) { tpm, session in
                broker.show(.matches)
                var request = try attacker.request(session)
                request.policy = lax
                let approval = try await broker.given(request)
                try tpm.execute(
                    PolicySigned(
                        Approval(
                            nonceTPM: session.nonceTPM, expiration: approval.expiration,
                            policyRef: PresenceReference.use(
                                by: broker.user, under: lax, enrolmentSet: nil)),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
            }
            #expect(refused == 0x99d, "the policy has no such branch")
        }
    }

    @Test func `an expired approval`() async throws {
        let policy = try #require(AccessPolicy(.biometryAny, reuseSeconds: 14))
        try await with(policy) { attacker, broker, _, _ in
            // The program has the store, and with it the key's authValue.
            let own = try #require(attacker.blob.protection.ownAuthValue)
            let refused = try await Attacker.sign(attacker, authValue: own) { tpm, session in
                broker.show(.matches)
                let approval = try await broker.given(attacker.request(session))
                try tpm.execute(
                    PolicySigned(
                        attacker.approval(approval, nonce: session.nonceTPM),
                        signature: TPMSignature(approval.signature), by: attacker.authority),
                    in: session)
                try attacker.join(tpm, session)
                try tpm.execute(PolicyAuthValue(), in: session)
                let end = try tpm.execute(ReadClock()).time + 15_500
                while try tpm.execute(ReadClock()).time < end {
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            #expect(refused == 0x9a3)
        }
    }

    @Test func `the fingers that were enrolled before a change`() async throws {
        try await with(.biometryCurrentSet) { attacker, broker, _, _ in
            let counter = try #require(attacker.finger.counter)
            broker.enrol(2)
            _ = try await broker.terms(for: .biometryCurrentSet)
            let refused = try await Attacker.sign(attacker) { tpm, session in
                try tpm.execute(PolicyNV(equals: counter.bytes, in: counter.index), in: session)
            }
            #expect(refused == 0x126)
        }
    }
}

extension InProcessBroker {
    func given(_ request: ApprovalRequest) async throws -> PresenceApproval {
        guard case .approved(let approval) = try await approve(request) else {
            throw KeystoreError.cancelled("approve")
        }
        return approval
    }
}

extension ECDSASignature {
    /// An invalid signature: zero bytes.
    fileprivate static var zero: ECDSASignature? {
        ECDSASignature(rawRepresentation: Data(count: 64))
    }
}
