import TPM2
import Testing

struct ResponseCodeTests {
    /// Codes that swtpm returns.
    @Test(
        arguments: [
            (0x12f, .authUnavailable, nil), (0x99d, .policyFail, .session(1)),
            (0x98e, .authFail, .session(1)),
            (0x9a2, .badAuth, .session(1)), (0x921, .lockout, nil),
            (0x5db, .signature, .parameter(5)),
            (0x1c4, .value, .parameter(1)), (0x9a3, .expired, .session(1)),
            (0x1e3, .expired, .parameter(1)),
            (0x126, .policy, nil), (0x124, .authType, nil), (0x2db, .signature, .parameter(2)),
            (0x902, .objectMemory, nil), (0x1df, .integrity, .parameter(1)),
            (0x18b, .handle, .handle(1)),
            (0x922, .retry, nil),
        ] as [(UInt32, ResponseCode, ResponseCode.Subject?)])
    func `a code is split into the error and its subject`(
        _ raw: UInt32, _ base: ResponseCode, _ subject: ResponseCode.Subject?
    ) {
        let code = ResponseCode(rawValue: raw)
        #expect(code.base == base)
        #expect(base ~= code)
        #expect(code.subject == subject)
        #expect(code.layer == 0)
        #expect(code.description.contains("0x" + String(raw, radix: 16)))
    }

    @Test func `the same code matches for any subject, and other codes do not`() {
        #expect(ResponseCode.authFail ~= ResponseCode(rawValue: 0xa8e))
        #expect(ResponseCode.authFail ~= ResponseCode(rawValue: 0x1ce))
        #expect(!(ResponseCode.authFail ~= ResponseCode(rawValue: 0x9a2)))
        #expect(!(ResponseCode.retry ~= ResponseCode(rawValue: 0x921)))
    }

    @Test func `codes of other layers are not the TPM's`() {
        let io = ResponseCode(rawValue: 0x000a_000a)
        #expect(io.layer == 10)
        #expect(io.base == io && io.subject == nil)
        let manager = ResponseCode(rawValue: 0x000b_098e)
        #expect(manager.layer == 11 && ResponseCode.authFail ~= manager)
    }

    @Test func `an unknown code is kept`() {
        let code = ResponseCode(rawValue: 0x0dead)
        #expect(code.rawValue == 0x0dead)
        #expect(code.description.contains("0xdead"))
    }
}
