import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct SessionTests {
    @Test func `a changed response is refused as forged`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            // The last byte of the HMAC, the attributes, and a byte of the signature.
            for offset in [-1, -35, -80] {
                test.wire.tamper = { code, response in
                    var response = response
                    // Not the swtpm's answer that it wants the first use of a protected key again.
                    if code == .sign && response.count > 100 {
                        response[response.count + offset] ^= 1
                    }
                    return response
                }
                #expect(
                    TestTPM.kind { () throws(TPMError) in _ = try test.sign(with: key) } == .forged,
                    "\(offset)")
                test.wire.tamper = { $1 }
                try flushSessions(test.tpm)
            }
        }
    }

    @Test func `a replayed response is refused as forged`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            _ = try test.sign(with: key)
            let old = try #require(test.wire.exchanges.last { $0.code == .sign }?.response)
            test.wire.tamper = { code, response in code == .sign ? old : response }
            #expect(TestTPM.kind { () throws(TPMError) in _ = try test.sign(with: key) } == .forged)
            test.wire.tamper = { $1 }
            try flushSessions(test.tpm)
        }
    }

    @Test func `an unsalted session cannot encrypt`() async throws {
        try await TestTPM.with { test in
            let kind = TestTPM.kind { () throws(TPMError) in
                try test.tpm.withSession(.hmac, saltedTo: nil) { (session) throws(TPMError) in
                    _ = try test.tpm.execute(
                        Create(TestTPM.signingTemplate(), under: test.parent),
                        authorizedBy: .lastUse(of: session, protecting: .decrypt))
                }
            }
            #expect(kind == .unsupported)
        }
    }

    /// A forged response keeps the library from knowing that the session ended; the TPM has ended
    /// it, or the test does.
    private func flushSessions(_ tpm: TPM) throws {
        for handle in try tpm.handles(from: .loadedSessionFirst) {
            try tpm.execute(FlushContext(handle))
        }
    }
}
