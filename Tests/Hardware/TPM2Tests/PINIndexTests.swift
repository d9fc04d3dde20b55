import LatchkeyTesting
import TPM2
import Testing

/// A PIN whose index counts wrong attempts. The TPM's dictionary-attack protection does not count
/// them.
@Suite(.softwareTPM)
struct PINIndexTests {
    @Test func `an index that is defined again with the owner's password opens nothing`()
        async throws
    {
        try await TestTPM.with { test in
            let scene = try Scene(test)
            let key = try scene.key()
            try test.tpm.execute(NVUndefineSpace(scene.index))
            try test.tpm.execute(
                NVDefineSpace(scene.template, authValue: try TestTPM.authValue([7, 7, 7, 2])))
            #expect(TestTPM.code { () throws(TPMError) in try scene.sign(key, pin: 2) } == 0x12f)
            #expect(
                TestTPM.code { () throws(TPMError) in
                    try scene.write([0, 0, 0, 0, 0, 0, 0, 9], by: SoftwareAuthority())
                } == 0x5db)
            #expect(
                TestTPM.code { () throws(TPMError) in try scene.write([0, 0, 0, 0, 0, 0, 0, 9]) }
                    == 0x9a2,
                "the authority's own reset is bound to the written index by the session's HMAC")
        }
    }
}

/// An index that one authority writes.
private struct Scene {
    let test: TestTPM
    let authority = SoftwareAuthority()
    let template: NVPublicArea
    let index: NVIndex
    private let branches: [PolicyDigest]
    private static let reset = Array("pin-reset".utf8)

    init(_ test: TestTPM) throws {
        self.test = test
        branches = [
            PolicyDigest().signed(by: try authority.publicArea.name, policyRef: Self.reset),
            PolicyDigest().authValue().commandCode(.nvChangeAuth),
        ]
        template = NVPublicArea(
            index: TPMHandle(rawValue: 0x0150_0020),
            attributes: [.policyWrite, .authRead, .ownerRead, .noDA, .pinFail],
            authPolicy: try #require(PolicyDigest.or(branches)).bytes, dataSize: 8)
        index = try NVIndex(publicArea: template.written)
        let pin = try TestTPM.authValue([7, 7, 7, 1])
        let template = template
        try test.tpm.withSession(.hmac, saltedTo: test.parent) { (session) throws(TPMError) in
            _ = try test.tpm.execute(
                NVDefineSpace(template, authValue: pin),
                authorizedBy: .lastUse(of: session, protecting: .decrypt))
        }
        try write([0, 0, 0, 0, 0, 0, 0, 9], to: try NVIndex(publicArea: template))
    }

    func write(_ data: [UInt8], to target: NVIndex? = nil, by authority: SoftwareAuthority? = nil)
        throws(TPMError)
    {
        try test.tpm.withSession(.policy, saltedTo: test.parent) { (session) throws(TPMError) in
            try test.approve(
                Approval(nonceTPM: session.nonceTPM, policyRef: Self.reset), self.authority,
                session,
                signedBy: authority)
            try test.tpm.execute(PolicyOR(branches), in: session)
            try test.tpm.execute(
                NVWrite(SensitiveData(data), to: target ?? index),
                authorizedBy: .lastUse(of: session))
        }
    }

    func key() throws -> CreatedObject {
        try test.create(
            TestTPM.signingTemplate([.noDA], policy: PolicyDigest().secret(of: index.name)))
    }

    func sign(_ key: CreatedObject, pin: UInt8) throws(TPMError) {
        guard let value = [7, 7, 7, pin].withUnsafeBytes({ AuthValue($0) }) else { return }
        _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
            try test.tpm.withSession(.hmac, saltedTo: test.parent) { (proof) throws(TPMError) in
                _ = try test.tpm.execute(
                    PolicySecret(Approval(), of: index), in: session,
                    authorizedBy: .lastUse(of: proof, authValue: value))
            }
        }
    }
}
