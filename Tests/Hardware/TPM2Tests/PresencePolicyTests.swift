import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct PresencePolicyTests {
    @Test func `a ticket is valid in other sessions until it expires, by the TPM's clock`()
        async throws
    {
        try await TestTPM.with { test in
            let authority = SoftwareAuthority()
            let ref = Array("reuse".utf8)
            let name = try authority.publicArea.name
            let key = try test.create(
                TestTPM.signingTemplate([], policy: PolicyDigest().signed(by: name, policyRef: ref))
            )
            func ticket(seconds: Int32) throws -> ApprovalTicket {
                var ticket: ApprovalTicket?
                _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
                    ticket = try test.approve(
                        Approval(nonceTPM: session.nonceTPM, expiration: -seconds, policyRef: ref),
                        authority, session)
                }
                return try #require(ticket)
            }
            func sign(_ ticket: ApprovalTicket) throws(TPMError) {
                _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
                    try test.tpm.execute(
                        PolicyTicket(ticket, for: Approval(policyRef: ref), by: name), in: session)
                }
            }
            let valid = try ticket(seconds: 3600)
            try sign(valid)
            try sign(valid)
            let expired = try ticket(seconds: 4)
            try test.passTime(seconds: 4)
            #expect(TestTPM.code { () throws(TPMError) in try sign(expired) } == 0x1e3)
        }
    }
}
