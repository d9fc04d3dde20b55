import Crypto
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Compares our digests with those of a TPM when ESAPI runs the same policy in a trial session.
@Suite(.softwareTPM) struct `Policy digests computed without a TPM are the TPM's own` {
    @Test func `PolicyAuthValue`() async throws {
        let theirs = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            try esys.policyDigest { esys, session in try esys.policyAuthValue(session) }
        }
        #expect(PolicyDigest().authValue().bytes == theirs)
    }

    @Test(arguments: [TPMCommandCode.sign, .unseal, .objectChangeAuth])
    func `PolicyCommandCode`(_ code: TPMCommandCode) async throws {
        let theirs = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            try esys.policyDigest { esys, session in
                try esys.policyCommandCode(session, code.rawValue)
            }
        }
        #expect(PolicyDigest().commandCode(code).bytes == theirs)
    }

    @Test(arguments: [[], [7], Array(repeating: 0xA5, count: 32)] as [[UInt8]])
    func `PolicySecret of the owner`(_ policyRef: [UInt8]) async throws {
        let theirs = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            try esys.policyDigest { esys, session in
                try esys.policySecretOfOwner(session, policyRef: policyRef)
            }
        }
        #expect(
            PolicyDigest().secret(of: Hierarchy.owner.name, policyRef: policyRef).bytes == theirs)
    }

    @Test(arguments: [[], [7], Array(repeating: 0xA5, count: 32)] as [[UInt8]])
    func `PolicySigned by an outside key, whose Name is computed here`(_ policyRef: [UInt8])
        async throws
    {
        let authority = OracleTemplates.verifying(P256.Signing.PrivateKey().publicKey)
        let (digest, name) = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let key = try esys.loadExternal(authority)
            let digest = try esys.policyDigest { esys, session in
                try esys.policySigned(session, by: key, policyRef: policyRef)
            }
            return (digest, try esys.name(of: key))
        }
        let ours = try PublicArea(unmarshalling: authority.dropFirst(2)).name
        #expect(ours.bytes == name)
        #expect(PolicyDigest().signed(by: ours, policyRef: policyRef).bytes == digest)
    }

    @Test(arguments: 2...8) func `PolicyOR of several branches, and the next assertion`(
        _ count: Int
    ) async throws {
        let branches = (0..<count).map { number in
            number.isMultiple(of: 2)
                ? PolicyDigest().authValue()
                : PolicyDigest().commandCode(TPMCommandCode(rawValue: 0x15D + UInt32(number)))
        }
        let theirs = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            try esys.policyDigest { esys, session in
                try esys.policyAuthValue(session)
                try esys.policyOR(session, branches.map(\.bytes))
                try esys.policyCommandCode(session, TPMCommandCode.sign.rawValue)
            }
        }
        #expect(PolicyDigest.or(branches)?.commandCode(.sign).bytes == theirs)
    }
}
