import Crypto
import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct SessionTests {
    private let pin = Array("123456".utf8)

    @Test func `the right authValue signs, and the signature is the key's`() async throws {
        try await TestTPM.with { test in
            let auth = try TestTPM.authValue(pin)
            let key = try test.create(TestTPM.signingTemplate(), authValue: auth)
            guard case .ecdsa(.sha256, let r, let s) = try test.sign(with: key, authValue: auth)
            else {
                Issue.record("not ECDSA with SHA-256")
                return
            }
            let point = try #require(key.publicArea.p256Point?.p256Representation)
            let raw =
                [UInt8](repeating: 0, count: 32 - r.count) + r
                + [UInt8](repeating: 0, count: 32 - s.count) + s
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: raw)
            let publicKey = try P256.Signing.PublicKey(x963Representation: point)
            #expect(publicKey.isValidSignature(signature, for: Digest32(TestTPM.digest)))
        }
    }

    @Test func `a wrong authValue is counted: 0x98e, and 0x921 after the third`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(
                TestTPM.signingTemplate(), authValue: try TestTPM.authValue(pin))
            let wrong = try TestTPM.authValue(Array("654321".utf8))
            for _ in 0..<3 {
                #expect(
                    TestTPM.code { () throws(TPMError) in
                        _ = try test.sign(with: key, authValue: wrong)
                    } == 0x98e)
            }
            let right = try TestTPM.authValue(pin)
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.sign(with: key, authValue: right)
                } == 0x921)
            try test.resetCount()
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.sign(with: key, authValue: right)
                } == nil)
        }
    }

    @Test func `a wrong authValue without dictionary-attack protection is 0x9a2`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(
                TestTPM.signingTemplate([.userWithAuth, .noDA]),
                authValue: try TestTPM.authValue(pin))
            let wrong = try TestTPM.authValue(Array("654321".utf8))
            #expect(
                TestTPM.code { () throws(TPMError) in _ = try test.sign(with: key, authValue: wrong)
                } == 0x9a2)
        }
    }

    @Test func `zeros at the end of an authValue don't count`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(
                TestTPM.signingTemplate(), authValue: try TestTPM.authValue([1, 0, 2, 0, 0]))
            #expect(try TestTPM.authValue([1, 0, 2, 0, 0]).count == 3)
            _ = try test.sign(with: key, authValue: try TestTPM.authValue([1, 0, 2]))
            _ = try test.sign(with: key, authValue: try TestTPM.authValue([1, 0, 2, 0]))
        }
    }

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

    @Test func `the nonces change with each command of a session`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(
                TestTPM.signingTemplate(), authValue: try TestTPM.authValue(pin))
            let auth = try TestTPM.authValue(pin)
            try test.tpm.withSession(.hmac, saltedTo: test.parent) { (session) throws(TPMError) in
                try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in
                    var nonces: Set<[UInt8]> = []
                    for _ in 0..<4 {
                        _ = try test.tpm.execute(
                            Sign(TestTPM.digest, with: object),
                            authorizedBy: .continuing(session, authValue: auth))
                        nonces.insert(session.nonceTPM)
                    }
                    #expect(nonces.count == 4)
                }
            }
        }
    }

    @Test func `sealed data and authValues cross the wire encrypted`() async throws {
        try await TestTPM.with { test in
            let secret = Array("thirty-two bytes of sealed data!".utf8)
            let auth = try TestTPM.authValue(Array("a PIN to look for".utf8))
            let template = PublicArea(
                attributes: [.fixedTPM, .fixedParent, .userWithAuth],
                detail: .keyedHash(.null, unique: []))
            let sealed = try test.tpm.withSession(.hmac, saltedTo: test.parent) {
                (session) throws(TPMError) in
                try test.tpm.execute(
                    Create(
                        template, authValue: auth, sealing: SensitiveData(secret),
                        under: test.parent),
                    authorizedBy: .lastUse(of: session, protecting: .decrypt))
            }
            let opened = try test.tpm.withSession(.hmac, saltedTo: test.parent) {
                (session) throws(TPMError) in
                try test.tpm.withLoaded(sealed.privatePart, sealed.publicArea, under: test.parent) {
                    (item) throws(TPMError) in
                    try test.tpm.execute(
                        Unseal(item),
                        authorizedBy: .lastUse(of: session, authValue: auth, protecting: .encrypt)
                    ).bytes
                }
            }
            #expect(opened == secret)
            let traffic = test.wire.exchanges.flatMap { $0.command + $0.response }
            #expect(traffic.firstRange(of: secret) == nil)
            #expect(traffic.firstRange(of: Array("a PIN to look for".utf8)) == nil)
        }
    }

    @Test func `a changed authValue authorizes the new private part`() async throws {
        try await TestTPM.with { test in
            let key = try test.create(TestTPM.signingTemplate())
            let new = try TestTPM.authValue(pin)
            let changed = try test.tpm.withSession(.hmac, saltedTo: test.parent) {
                (session) throws(TPMError) in
                try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in
                    try test.tpm.execute(
                        ObjectChangeAuth(of: object, under: test.parent, to: new),
                        authorizedBy: .lastUse(of: session, protecting: [.decrypt, .encrypt]))
                }
            }
            try test.tpm.withSession(.hmac, saltedTo: test.parent) { (session) throws(TPMError) in
                try test.tpm.withLoaded(changed, key.publicArea, under: test.parent) {
                    (object) throws(TPMError) in
                    _ = try test.tpm.execute(
                        Sign(TestTPM.digest, with: object),
                        authorizedBy: .lastUse(of: session, authValue: new))
                }
            }
        }
    }

    /// An attacker with recorded traffic knows everything except the session's salt. Without a
    /// salt, offline guessing is possible.
    @Test func `a PIN can be guessed from an unsalted session and not from a salted one`()
        async throws
    {
        try await TestTPM.with { test in
            let auth = try TestTPM.authValue(pin)
            let key = try test.create(TestTPM.signingTemplate(), authValue: auth)
            for isSalted in [false, true] {
                var nonceTPM: [UInt8] = []
                try test.tpm.withSession(.hmac, saltedTo: isSalted ? test.parent : nil) {
                    (session) throws(TPMError) in
                    nonceTPM = session.nonceTPM
                    try test.tpm.withLoaded(key.privatePart, key.publicArea, under: test.parent) {
                        (object) throws(TPMError) in
                        _ = try test.tpm.execute(
                            Sign(TestTPM.digest, with: object),
                            authorizedBy: .lastUse(of: session, authValue: auth))
                    }
                }
                let command = try #require(test.wire.exchanges.last { $0.code == .sign }?.command)
                let guess = try guessedHMAC(
                    command, nonceTPM: nonceTPM, key: key.publicArea.name, pin: pin)
                #expect((command.firstRange(of: guess) != nil) == !isSalted)
            }
        }
    }

    /// The HMAC of a recorded Sign for a guessed PIN, if the session had no salt.
    private func guessedHMAC(
        _ command: [UInt8], nonceTPM: [UInt8], key: TPMName, pin: [UInt8]
    ) throws -> [UInt8] {
        var reader = TPMReader(command.dropFirst(18 + 4))
        let nonceCaller = try reader.readSized(maximum: 64)
        let attributes = try reader.read(UInt8.self)
        var mac = HMAC<SHA256>(key: SymmetricKey(data: pin))
        mac.update(data: Sign(TestTPM.digest, with: NamedHandle(named: key)).hash)
        mac.update(data: nonceCaller)
        mac.update(data: nonceTPM)
        mac.update(data: [attributes])
        return Array(mac.finalize())
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

/// Lets swift-crypto verify over a digest.
private struct Digest32: Digest {
    static let byteCount = 32
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var description: String { "a digest" }
    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }
    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}
