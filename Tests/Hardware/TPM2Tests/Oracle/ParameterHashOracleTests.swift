import Crypto
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// An approval by signature names one command by its cpHash. The TPM compares it with the command
/// that ESAPI sends.
@Suite(.softwareTPM) struct `The cpHash computed here is the one of the command that ESAPI sends` {
    private static let digest = [UInt8](SHA256.hash(data: [1, 2, 3]))

    @Test func `the approved Sign is executed`() async throws {
        try await sign(Self.digest, approved: Self.digest)
    }

    @Test func `another Sign is refused`() async throws {
        let other = [UInt8](SHA256.hash(data: [4, 5, 6]))
        let error = await #expect(throws: ESAPI.Failure.self) {
            try await sign(other, approved: Self.digest)
        }
        // TPM_RC_POLICY_FAIL, session 1.
        #expect(error?.code == 0x99D)
    }

    /// Signs `digest` with a key that obeys `authority`, which approves of signing `approved`.
    private func sign(_ digest: [UInt8], approved: [UInt8]) async throws {
        let authority = P256.Signing.PrivateKey()
        let area = OracleTemplates.verifying(authority.publicKey)
        let policy = PolicyDigest().signed(
            by: try PublicArea(unmarshalling: area.dropFirst(2)).name)
        // fixedTPM, fixedParent, sensitiveDataOrigin, sign; no userWithAuth.
        let template = OracleTemplates.signing(policy: policy.bytes, attributes: 0x0004_0032)

        try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let storage = try esys.createPrimary(OracleTemplates.storage)
            let creation = try esys.startSession(.hmac, saltKey: storage)
            let wrapped = try esys.create(
                under: storage, authValue: [], template: template, session: creation)
            let key = try esys.load(wrapped, under: storage)
            let name = try PublicArea(unmarshalling: wrapped.publicArea.dropFirst(2)).name
            #expect(try esys.name(of: key) == name.bytes)

            // digest, scheme null, and an empty ticket of the null hierarchy (Part 3 section 20.2).
            let parameters =
                MarshallingUnit.sized(approved) + [
                    0x00, 0x10, 0x80, 0x24, 0x40, 0x00, 0x00, 0x07, 0, 0,
                ]
            let cpHash = ParameterHash.command(.sign, names: [name], parameters: parameters)
            // nonceTPM (none), expiration 0, cpHash, policyRef (none): Part 3 section 23.3.
            let approval = try authority.signature(for: [0, 0, 0, 0] + cpHash).rawRepresentation

            let session = try esys.startSession(.policy)
            try esys.policySigned(
                session, by: esys.loadExternal(area), cpHash: cpHash, policyRef: [],
                signature: (Array(approval.prefix(32)), Array(approval.suffix(32))))
            _ = try esys.sign(digest, with: key, session: session)
        }
    }
}
