import Crypto
import Foundation
import Latchkey
import TPM2
import Testing

@testable import LatchkeyRelyingParty

/// Policies with a way to use the key without the user, beside the declared proofs.
@Suite("Policies that a server refuses") struct DeclaredPolicyTests {
    private let verifier = AttestationVerifierTests()

    /// A branch that permits a command without a proof of the user's presence.
    private static func permitting(_ code: UInt32) -> (json: String, digest: PolicyDigest) {
        (
            #"{"type":"\#(code == 0x148 ? "certify" : "command")"}"#,
            PolicyDigest().commandCode(TPMCommandCode(rawValue: code))
        )
    }

    /// The branch for `TPM2_Certify` permits the key as the signer of a statement, so the key signs
    /// without the finger or the PIN.
    @Test(arguments: [0x148, 0x14a, 0x158, 0x15d] as [UInt32])
    func `a key with a branch for a command alone is refused`(_ code: UInt32) async throws {
        let branch = Self.permitting(code)
        let others = [
            [], [try verifier.finger()], [try verifier.pin()],
            [try verifier.finger(), try verifier.pin()],
        ]
        for attributes: UInt32 in [0x0004_0432, 0x0004_04b2, 0x0004_0072, 0x0004_0472] {
            for proofs in others {
                await verifier.expect(.wrongPolicy) {
                    try await verifier.verify(try verifier.statement(attributes, proofs + [branch]))
                }
                await verifier.expect(.wrongPolicy) {
                    try await verifier.verify(
                        try verifier.statement(
                            attributes,
                            policy: PolicyDigest.or((proofs + [branch]).map(\.digest))?.bytes
                                ?? branch.digest.bytes,
                            presence: AttestationVerifierTests.presence(proofs.map(\.json))))
                }
            }
        }
    }

    /// The authValue may be empty, and opens the key as well as the PIN of the index.
    @Test(arguments: [0x0004_0072, 0x0004_00f2] as [UInt32])
    func `the PIN of an index beside an authValue is refused`(_ attributes: UInt32) async throws {
        for branches in [
            [try verifier.pin()],
            [try verifier.finger(requirement: "user-presence"), try verifier.pin()],
        ] {
            await verifier.expect(.wrongPolicy) {
                try await verifier.verify(try verifier.statement(attributes, branches))
            }
        }
    }

    /// The policy could permit its signatures to everybody.
    @Test func `an approval key with a policy is refused`() async throws {
        let policy = PolicyDigest().commandCode(TPMCommandCode(rawValue: 0x15d)).bytes
        for (attributes, policy): (UInt32, [UInt8]) in [
            (0x0004_0472, policy), (0x0004_04f2, []), (0x0004_0432, policy), (0x0004_0432, []),
        ] {
            let key = AttestationRig.area(
                verifier.rig.approvalKey.publicKey,
                attributes: ObjectAttributes(rawValue: attributes),
                policy: policy)
            let branch = try verifier.finger(key: key)
            await verifier.expect(.wrongPolicy) {
                try await verifier.verify(try verifier.statement(0x0004_0432, [branch]))
            }
        }
    }
}
