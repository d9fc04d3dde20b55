import Crypto
import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct CommandTests {
    @Test func `capabilities are read`() async throws {
        try await TestTPM.with { test in
            let properties = try test.tpm.properties(from: .lockoutCounter, count: 4)
            #expect(
                properties == [
                    .lockoutCounter: 0, .maxAuthFail: 3, .lockoutInterval: 1000,
                    .lockoutRecovery: 1000,
                ])
            #expect(
                try test.tpm.execute(GetCapability<ECCCurve>(.eccCurves, count: 64)).elements
                    .contains(.nistP256))
            #expect(try test.tpm.handles(from: .persistentFirst) == [.storageRootKey])
        }
    }

    @Test func `random bytes differ between calls`() async throws {
        try await TestTPM.with { test in
            let first = try test.tpm.getRandom(32)
            let second = try test.tpm.getRandom(32)
            #expect(first.count == 32 && second.count == 32 && first != second)
        }
    }

    @Test func `a persistent key is read, and an empty handle has no key`() async throws {
        try await TestTPM.with { test in
            let read = try test.tpm.execute(ReadPublic(.storageRootKey))
            #expect(read == test.parent)
            let nobody = TPMHandle(rawValue: 0x8100_7777)
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.tpm.execute(ReadPublic(nobody)) }
                    == 0x18b
            )
        }
    }

    @Test func `a persistent key is removed`() async throws {
        try await TestTPM.with { test in
            try test.tpm.execute(EvictControl(test.parent, at: .storageRootKey))
            #expect(try test.tpm.handles(from: .persistentFirst) == [])
        }
    }

    @Test func `a point is multiplied`() async throws {
        try await TestTPM.with { test in
            let template = PublicArea(
                attributes: TestTPM.born.union([.userWithAuth, .decrypt, .noDA]),
                detail: .ecc(ECCParameters(scheme: .null), ECCPoint(x: [], y: [])))
            let key = try test.create(template)
            let mine = P256.KeyAgreement.PrivateKey()
            let raw = Array(mine.publicKey.rawRepresentation)
            let point = try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent)
            {
                (object) throws(TPMError) in
                try test.tpm.execute(
                    ECDHZGen(
                        ECCPoint(x: Array(raw.prefix(32)), y: Array(raw.suffix(32))), with: object))
            }
            let theirs = try P256.KeyAgreement.PublicKey(
                x963Representation: try #require(key.publicArea.p256Point?.p256Representation))
            let shared = try mine.sharedSecretFromKeyAgreement(with: theirs)
            #expect(
                shared.withUnsafeBytes { Array($0) }
                    == point.p256Representation.map { Array($0[1..<33]) })
        }
    }

    @Test func `contexts of a key and of a session are saved and loaded`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            try test.tpm.withSession(.hmac, saltedTo: test.parent) { (session) throws(TPMError) in
                let saved = try test.tpm.execute(ContextSave(session))
                #expect(try test.tpm.handles(from: .loadedSessionFirst) == [])
                #expect(try test.tpm.execute(ContextLoad(saved)) == session.handle)
                let object = try test.tpm.execute(
                    Load(key.privatePart, key.publicArea, under: test.parent))
                let context = try test.tpm.execute(ContextSave(object))
                try test.tpm.execute(FlushContext(object.handle))
                let handle = try test.tpm.execute(ContextLoad(context))
                let again = try TPMObject(handle: handle, publicArea: key.publicArea)
                _ = try test.tpm.execute(
                    Sign(TestTPM.digest, with: again), authorizedBy: .continuing(session))
                try test.tpm.execute(FlushContext(handle))
            }
        }
    }

    @Test func `the TPM verifies its signature, and answers 0x2db for another digest`() async throws
    {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            let signature = try test.sign(with: key)
            try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                (object) throws(TPMError) in
                _ = try test.tpm.execute(
                    VerifySignature(signature, over: TestTPM.digest, by: object))
                let other = [UInt8](repeating: 1, count: 32)
                let code = TestTPM.code { () throws(TPMError) in
                    _ = try test.tpm.execute(VerifySignature(signature, over: other, by: object))
                }
                #expect(code == 0x2db)
            }
        }
    }

    @Test func `the creation of a key is certified`() async throws {
        try await TestTPM.with { test in
            let signer = try test.create(
                TestTPM.signingTemplate([.userWithAuth, .restricted, .noDA]))
            let key = try test.create(TestTPM.signingTemplate())
            let challenge = [UInt8](repeating: 9, count: 20)
            try test.tpm.withLoaded(signer.privatePart, signer.publicArea, under: test.parent) {
                (signer) throws(TPMError) in
                try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in
                    let said = try test.tpm.execute(
                        CertifyCreation(
                            of: object, creationHash: key.creationHash,
                            creationTicket: key.creationTicket, challenge: challenge, by: signer))
                    #expect(said.attest.extraData == challenge)
                    #expect(
                        said.attest.statement
                            == .creation(objectName: object.name, creationHash: key.creationHash))
                    let code = TestTPM.code { () throws(TPMError) in
                        _ = try test.tpm.execute(
                            CertifyCreation(
                                of: object, creationHash: [UInt8](repeating: 0, count: 32),
                                creationTicket: key.creationTicket, challenge: challenge, by: signer
                            ))
                    }
                    #expect(
                        code == 0x4e0, "another hash does not fit the ticket: TICKET, parameter 4")
                }
            }
        }
    }

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

    @Test func `the clock advances`() async throws {
        try await TestTPM.with { test in
            let first = try test.tpm.execute(ReadClock())
            let second = try test.tpm.execute(ReadClock())
            #expect(second.clockInfo.clock >= first.clockInfo.clock)
            #expect(second.clockInfo.resetCount == first.clockInfo.resetCount)
        }
    }

}
