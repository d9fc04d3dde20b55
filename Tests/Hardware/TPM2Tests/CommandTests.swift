import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct CommandTests {
    @Test func `a wrapped key is loaded by its own parent only: 0x1df`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            var bytes = key.privatePart.bytes
            bytes[bytes.count / 2] ^= 1
            let damaged = try #require(PrivateBlob(bytes: bytes))
            let code = TestTPM.code { () throws(TPMError) in
                _ = try test.tpm.execute(Load(damaged, key.publicArea, under: test.parent))
            }
            #expect(code == 0x1df)
        }
    }

    /// swtpm has three slots, and loads the persistent parent into one during a command.
    @Test func `a third object under a persistent parent does not fit: 0x902`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            var loaded: [TPMObject] = []
            for _ in 0..<2 {
                loaded.append(
                    try test.tpm.execute(Load(key.privatePart, key.publicArea, under: test.parent)))
            }
            let code = TestTPM.code { () throws(TPMError) in
                _ = try test.tpm.execute(Load(key.privatePart, key.publicArea, under: test.parent))
            }
            #expect(code == 0x902)
            for object in loaded { try test.tpm.execute(FlushContext(object.handle)) }
        }
    }

    @Test func `an error of a closure is rethrown, and the object is flushed`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            let mine = TPMError(.unsupported, reason: "thrown by the closure")
            #expect(throws: mine) {
                try test.tpm.withSession(.hmac, saltedTo: test.parent) { (_) throws(TPMError) in
                    try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                        (_) throws(TPMError) in throw mine
                    }
                }
            }
        }
    }
}
