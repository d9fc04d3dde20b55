import LatchkeyTesting
import TPM2
import Testing

/// Each digest is compared with the TPM's own; each negative has its exact response code.
@Suite(.softwareTPM)
struct PolicyTests {
    @Test func `PolicyAuthValue has the known digest`() {
        // Printed by tpm2_policyauthvalue 5.4.
        #expect(
            PolicyDigest().authValue().bytes.map {
                String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
            }.joined()
                == "8fcd2169ab92694e0c633f1ab772842b8241bbc20288981fc7ac1eddc1fddb0e")
    }

    @Test func `the digests are the TPM's`() async throws {
        try await TestTPM.with { test in
            try expect(PolicyDigest().authValue(), test) { (session) throws(TPMError) in
                try test.tpm.execute(PolicyAuthValue(), in: session)
            }
            try expect(PolicyDigest().commandCode(.sign), test) { (session) throws(TPMError) in
                try test.tpm.execute(PolicyCommandCode(.sign), in: session)
            }
            let branches = [PolicyDigest().authValue(), PolicyDigest().commandCode(.sign)]
            try expect(try #require(.or(branches)), test) { (session) throws(TPMError) in
                try test.tpm.execute(PolicyAuthValue(), in: session)
                try test.tpm.execute(PolicyOR(branches), in: session)
            }
            let ref = Array("a reference".utf8)
            try expect(PolicyDigest().secret(of: Hierarchy.owner.name, policyRef: ref), test) {
                (session) throws(TPMError) in
                try test.tpm.execute(
                    PolicySecret(Approval(policyRef: ref), of: Hierarchy.owner), in: session)
            }
            #expect(PolicyDigest.or([PolicyDigest()]) == nil)
        }
    }

    @Test func `an authValue policy signs with the authValue only`() async throws {
        try await TestTPM.with { test in
            let auth = try TestTPM.authValue([7, 7, 7, 7])
            let key = try test.create(
                TestTPM.signingTemplate([], policy: PolicyDigest().authValue()), authValue: auth)
            _ = try test.sign(with: key, in: .policy, authValue: auth) {
                (session, _) throws(TPMError) in
                try test.tpm.execute(PolicyAuthValue(), in: session)
            }
            let wrong = try TestTPM.authValue([7, 7, 7, 8])
            #expect(
                TestTPM.code { () throws(TPMError) in
                    _ = try test.sign(with: key, in: .policy, authValue: wrong) {
                        (session, _) throws(TPMError) in
                        try test.tpm.execute(PolicyAuthValue(), in: session)
                    }
                } == 0x98e)
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.sign(with: key, in: .policy) }
                    == 0x99d,
                "a policy session that satisfies nothing")
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.sign(with: key, authValue: auth)
                } == 0x12f,
                "an HMAC session on a policy-only key")
        }
    }

    @Test func `an approval signs once, for its digest, in its session`() async throws {
        try await TestTPM.with { test in
            let broker = SoftwareAuthority()
            let ref = Array("uid 1000".utf8)
            let authority = try broker.publicArea.name
            let key = try test.create(
                TestTPM.signingTemplate(
                    [], policy: PolicyDigest().signed(by: authority, policyRef: ref)))
            func sign(
                _ approval: @escaping (Session, TPMObject) -> Approval,
                signedAs signed: ((Approval) -> Approval)? = nil
            ) throws(TPMError) {
                _ = try test.sign(with: key, in: .policy) { (session, object) throws(TPMError) in
                    let said = approval(session, object)
                    let brokerKey = try test.tpm.execute(LoadExternal(broker.publicArea))
                    do throws(TPMError) {
                        try test.tpm.execute(
                            PolicySigned(
                                said, signature: broker.sign(signed?(said) ?? said), by: brokerKey),
                            in: session)
                    } catch {
                        try test.tpm.execute(FlushContext(brokerKey.handle))
                        throw error
                    }
                    try test.tpm.execute(FlushContext(brokerKey.handle))
                }
            }
            try sign { session, object in
                Approval(
                    nonceTPM: session.nonceTPM, expiration: 30,
                    commandHash: Sign(TestTPM.digest, with: NamedHandle(named: object.name)).hash,
                    policyRef: ref)
            }
            #expect(
                TestTPM.code { () throws(TPMError) in
                    try sign { session, object in
                        let other = [UInt8](repeating: 1, count: 32)
                        return Approval(
                            nonceTPM: session.nonceTPM,
                            commandHash: Sign(other, with: NamedHandle(named: object.name)).hash,
                            policyRef: ref)
                    }
                } == 0x99d, "an approval of another digest")
            #expect(
                TestTPM.code { () throws(TPMError) in
                    try sign { session, _ in
                        Approval(nonceTPM: session.nonceTPM, policyRef: ref)
                    } signedAs: { _ in
                        Approval(nonceTPM: [UInt8](repeating: 3, count: 32), policyRef: ref)
                    }
                } == 0x5db, "an approval of another session")
            #expect(
                TestTPM.code { () throws(TPMError) in
                    try sign { session, _ in
                        Approval(nonceTPM: session.nonceTPM, policyRef: Array("uid 0".utf8))
                    }
                } == 0x99d, "an approval of another user")
        }
    }

    @Test func `PolicyRestart resets the policy digest`() async throws {
        try await TestTPM.with { test in
            try test.tpm.withSession(.trial, saltedTo: nil) { (session) throws(TPMError) in
                try test.tpm.execute(PolicyAuthValue(), in: session)
                try test.tpm.execute(PolicyRestart(), in: session)
                #expect(
                    try test.tpm.execute(PolicyGetDigest(), in: session) == PolicyDigest().bytes)
            }
        }
    }

    private func expect(
        _ digest: PolicyDigest, _ test: TestTPM, _ steps: (Session) throws(TPMError) -> Void
    ) throws {
        try test.tpm.withSession(.trial, saltedTo: nil) { (session) throws(TPMError) in
            try steps(session)
            #expect(try test.tpm.execute(PolicyGetDigest(), in: session) == digest.bytes)
        }
    }
}
