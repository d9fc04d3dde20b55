import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Certify, NV_Certify and creation with a caller's data on a software TPM, with the codes of its
/// refusals.
@Suite(.softwareTPM)
struct AttestationCommandTests {
    private static let challenge = [UInt8](repeating: 9, count: 48)
    private static let signer = TestTPM.signingTemplate([.userWithAuth, .restricted, .noDA])

    /// Loads a signer and a key.
    private func with(
        _ template: PublicArea, _ body: (TestTPM, TPMObject, TPMObject) throws(TPMError) -> Void
    ) async throws {
        try await TestTPM.with { test in
            let (signer, key) = (try test.create(Self.signer), try test.create(template))
            try test.tpm.withLoaded(signer.privatePart, signer.publicArea, under: test.parent) {
                (signer) throws(TPMError) in
                try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in try body(test, signer, object)
                }
            }
        }
    }

    @Test func `a key without an authValue is certified with the empty password`() async throws {
        try await with(TestTPM.signingTemplate()) { (test, signer, key) throws(TPMError) in
            let said = try test.tpm.execute(Certify(key, by: signer, challenge: Self.challenge))
            #expect(said.attest.extraData == Self.challenge)
            guard case .certify(key.name, let qualified) = said.attest.statement else {
                Issue.record("it is about something else")
                return
            }
            #expect(qualified != key.name && qualified.bytes.count == 34)
            #expect(try Attest(unmarshalling: said.bytes) == said.attest)
        }
    }

    @Test func `a policy with the branch for Certify certifies, and does not sign: 0x9a4`()
        async throws
    {
        let branches = [PolicyDigest().authValue(), PolicyDigest().commandCode(.certify)]
        let template = TestTPM.signingTemplate(
            [.adminWithPolicy, .noDA], policy: PolicyDigest.or(branches))
        try await with(template) { (test, signer, key) throws(TPMError) in
            let password = TestTPM.code { () throws(TPMError) in
                _ = try test.tpm.execute(Certify(key, by: signer, challenge: Self.challenge))
            }
            #expect(password == 0x124, "TPM_RC_AUTH_TYPE: only the policy has the ADMIN role")
            let said = try test.tpm.withSession(.policy, saltedTo: nil) {
                (session) throws(TPMError) in
                try test.tpm.execute(PolicyCommandCode(.certify), in: session)
                try test.tpm.execute(PolicyOR(branches), in: session)
                return try test.tpm.execute(
                    Certify(key, by: signer, challenge: Self.challenge),
                    authorizedBy: .lastUse(of: session))
            }
            guard case .certify(key.name, _) = said.attest.statement else {
                Issue.record("it is about something else")
                return
            }
            let code = TestTPM.code { () throws(TPMError) in
                try test.tpm.withSession(.policy, saltedTo: nil) { (session) throws(TPMError) in
                    try test.tpm.execute(PolicyCommandCode(.certify), in: session)
                    try test.tpm.execute(PolicyOR(branches), in: session)
                    _ = try test.tpm.execute(
                        Sign(TestTPM.digest, with: key), authorizedBy: .lastUse(of: session))
                }
            }
            #expect(code == 0x9a4)
        }
    }

    @Test func `the content of an index is certified`() async throws {
        try await with(TestTPM.signingTemplate()) { (test, signer, _) throws(TPMError) in
            let area = NVPublicArea(
                index: TPMHandle(rawValue: 0x0180_4e00),
                attributes: [.authRead, .authWrite, .noDA], dataSize: 8)
            try test.tpm.execute(NVDefineSpace(area))
            let index = try NVIndex(publicArea: area.written)
            let content: [UInt8] = Array(1...8)
            try test.tpm.execute(NVWrite(SensitiveData(content), to: NVIndex(publicArea: area)))
            let said = try test.tpm.execute(NVCertify(index, by: signer, challenge: Self.challenge))
            #expect(
                said.attest.statement == .nv(indexName: index.name, offset: 0, contents: content))
            try test.tpm.execute(NVUndefineSpace(index))
        }
    }

    @Test func `the creation data contains the caller's data`() async throws {
        try await TestTPM.with { test in
            let created = try test.tpm.execute(
                Create(TestTPM.signingTemplate(), outsideInfo: Self.challenge, under: test.parent))
            #expect(created.creationData.outsideInfo == Self.challenge)
        }
    }

    @Test func `a signer that is not restricted has to be refused by verifiers, not by the TPM`()
        async throws
    {
        try await TestTPM.with { test in
            let (signer, key) = (
                try test.create(TestTPM.signingTemplate()),
                try test.create(TestTPM.signingTemplate())
            )
            try test.tpm.withLoaded(signer.privatePart, signer.publicArea, under: test.parent) {
                (signer) throws(TPMError) in
                try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in
                    _ = try test.tpm.execute(Certify(object, by: signer, challenge: Self.challenge))
                    #expect(!signer.publicArea.attributes.contains(.restricted))
                }
            }
        }
    }
}
