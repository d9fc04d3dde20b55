import LatchkeyTesting
import TPM2
import Testing

/// The parts of presence policies: tickets, counters, PIN indices, suspended sessions. Each refusal
/// has an exact response code.
@Suite(.softwareTPM)
struct PresencePolicyTests {
    private static let counterTemplate = NVPublicArea(
        index: TPMHandle(rawValue: 0x0150_0016),
        attributes: [.ownerWrite, .authRead, .ownerRead, .noDA, .counter],
        dataSize: 8)

    @Test func `an approval for one of several branches signs, and one for another user does not`()
        async throws
    {
        try await TestTPM.with { test in
            let authority = SoftwareAuthority()
            let name = try authority.publicArea.name
            let (own, other) = (Array("uid 1000".utf8), Array("uid 1001".utf8))
            let branches = [
                PolicyDigest().signed(by: name, policyRef: own), PolicyDigest().authValue(),
            ]
            let key = try test.create(TestTPM.signingTemplate([], policy: .or(branches)))
            func sign(_ ref: [UInt8]) throws(TPMError) {
                _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
                    try test.approve(
                        Approval(nonceTPM: session.nonceTPM, policyRef: ref), authority, session)
                    try test.tpm.execute(PolicyOR(branches), in: session)
                }
            }
            try sign(own)
            #expect(TestTPM.code { () throws(TPMError) in try sign(other) } == 0x1c4)
        }
    }

    @Test func `a saved session uses no slot and is loaded over another connection`() async throws {
        try await TestTPM.with { test in
            let authority = SoftwareAuthority()
            let ref = Array("a reference".utf8)
            let policy = PolicyDigest().signed(by: try authority.publicArea.name, policyRef: ref)
            let key = try test.create(TestTPM.signingTemplate([], policy: policy))
            for saltedTo in [nil, test.parent] {
                let session = try test.tpm.execute(StartAuthSession(.policy, saltedTo: saltedTo))
                let suspended = try test.tpm.suspend(session)
                #expect(try test.tpm.handles(from: .loadedSessionFirst) == [])
                try test.tpm.withResumed(suspended) { (session) throws(TPMError) in
                    try test.approve(
                        Approval(nonceTPM: suspended.nonceTPM, expiration: 30, policyRef: ref),
                        authority, session)
                    try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                        (object) throws(TPMError) in
                        _ = try test.tpm.execute(
                            Sign(TestTPM.digest, with: object), authorizedBy: .lastUse(of: session))
                    }
                }
            }
            let given = try test.tpm.suspend(
                try test.tpm.execute(StartAuthSession(.policy, saltedTo: nil)))
            try test.tpm.execute(FlushContext(given.handle))
            #expect(
                TestTPM.code { () throws(TPMError) in
                    try test.tpm.withResumed(given) { (_) throws(TPMError) in }
                }
                    == 0x1cb, "a session that was given up while it was out")
        }
    }

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

    @Test func `an expired approval is refused when the key is used`() async throws {
        try await TestTPM.with { test in
            let authority = SoftwareAuthority()
            let key = try test.create(
                TestTPM.signingTemplate(
                    [], policy: PolicyDigest().signed(by: try authority.publicArea.name)))
            #expect(
                TestTPM.code { () throws(TPMError) in
                    _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
                        try test.approve(
                            Approval(nonceTPM: session.nonceTPM, expiration: 5), authority, session)
                        try test.passTime(seconds: 5)
                    }
                } == 0x9a3)
        }
    }

    @Test func `an increment of the counter invalidates its policy permanently`() async throws {
        try await TestTPM.with { test in
            let unwritten = try test.tpm.execute(NVDefineSpace(Self.counterTemplate))
            try test.tpm.execute(NVIncrement(unwritten, by: Hierarchy.owner))
            let counter = try test.tpm.execute(NVReadPublic(unwritten.handle))
            #expect(counter.publicArea == Self.counterTemplate.written)
            let value = try test.tpm.nvRead(counter)
            let policy = PolicyDigest().nvEquals(value, in: counter.name)
            try test.tpm.withSession(.trial, saltedTo: nil) { (session) throws(TPMError) in
                try test.tpm.execute(PolicyNV(equals: value, in: counter), in: session)
                #expect(try test.tpm.execute(PolicyGetDigest(), in: session) == policy.bytes)
            }
            let key = try test.create(TestTPM.signingTemplate([], policy: policy))
            func sign() throws(TPMError) {
                _ = try test.sign(with: key, in: .policy) { (session, _) throws(TPMError) in
                    try test.tpm.execute(PolicyNV(equals: value, in: counter), in: session)
                }
            }
            try sign()
            try test.tpm.execute(NVIncrement(counter, by: Hierarchy.owner))
            #expect(TestTPM.code(sign) == 0x126)
            try test.tpm.execute(NVUndefineSpace(counter))
            try test.tpm.execute(NVDefineSpace(Self.counterTemplate))
            try test.tpm.execute(NVIncrement(unwritten, by: Hierarchy.owner))
            #expect(TestTPM.code(sign) == 0x126, "a counter made anew begins above the old one")
        }
    }
}
