import Crypto
import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Each implementation loads and uses the objects of the other. The wrapping, the Names, the
/// session keys, the HMACs and the parameter encryption of both agree, since the TPM accepts both.
@Suite(.softwareTPM) struct `ESAPI and TPM2 use each other's objects` {
    private static let digest = [UInt8](SHA256.hash(data: [1, 2, 3]))
    private static let secret = (0..<32).map { UInt8($0) }

    /// The last one ends in zeros, which a TPM takes off.
    static let authValues: [[UInt8]] = [
        [], Array("1234".utf8), Array(SHA256.hash(data: [9])), [0, 1, 0, 2, 0, 0],
    ]

    @Test(arguments: authValues) func `a key that ESAPI made signs for TPM2`(_ authValue: [UInt8])
        async throws
    {
        let key = try await makeWithESAPI(OracleTemplates.signing, authValue)
        let signature = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.sign(Self.digest, with: key, authValue: authValue)
        }
        #expect(try isValid(signature, by: key))
    }

    @Test(arguments: authValues) func `a key that TPM2 made signs for ESAPI`(_ authValue: [UInt8])
        async throws
    {
        let key = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.create(OracleTemplates.signing, authValue: authValue)
        }
        let (name, signature) = try await useWithESAPI(key, authValue) { esys, key, session in
            (try esys.name(of: key), try esys.sign(Self.digest, with: key, session: session))
        }
        #expect(try area(of: key).name.bytes == name)
        #expect(try isValid(signature, by: key))
    }

    @Test func `a key with the policy PolicyAuthValue that TPM2 made signs for ESAPI`() async throws
    {
        let authValue = Array("1234".utf8)
        // fixedTPM, fixedParent, sensitiveDataOrigin, sign; no userWithAuth.
        let template = OracleTemplates.signing(
            policy: PolicyDigest().authValue().bytes, attributes: 0x0004_0032)
        let key = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.create(template, authValue: authValue)
        }
        let signature = try await useWithESAPI(key, authValue, in: .policy) { esys, key, session in
            try esys.policyAuthValue(session)
            return try esys.sign(Self.digest, with: key, session: session)
        }
        #expect(try isValid(signature, by: key))
    }

    @Test(arguments: authValues) func `what ESAPI sealed TPM2 unseals`(_ authValue: [UInt8])
        async throws
    {
        let item = try await makeWithESAPI(OracleTemplates.sealed, authValue, sealing: Self.secret)
        let unsealed = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.unseal(item, authValue: authValue)
        }
        #expect(unsealed == Self.secret)
    }

    @Test(arguments: authValues) func `what TPM2 sealed ESAPI unseals`(_ authValue: [UInt8])
        async throws
    {
        let item = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.create(OracleTemplates.sealed, authValue: authValue, sealing: Self.secret)
        }
        let unsealed = try await useWithESAPI(item, authValue) { esys, item, session in
            try esys.unseal(item, session: session)
        }
        #expect(unsealed == Self.secret)
    }

    @Test func `ESAPI needs the new authorization value after TPM2 changed it`() async throws {
        let (old, new) = (Array("old".utf8), Array("new".utf8))
        let changed = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { tpm in
            try tpm.changeAuthValue(
                of: tpm.create(OracleTemplates.signing, authValue: old), from: old, to: new)
        }
        let error = await #expect(throws: ESAPI.Failure.self) {
            try await signWithESAPI(changed, old)
        }
        // TPM_RC_AUTH_FAIL, session 1.
        #expect(error?.code == 0x98E)
        #expect(try isValid(await signWithESAPI(changed, new), by: changed))
    }

    // MARK: ESAPI. A restart removes its loaded objects.

    private func makeWithESAPI(
        _ template: [UInt8], _ authValue: [UInt8], sealing data: [UInt8] = []
    ) async throws -> ESAPI.WrappedKey {
        let tpm = try SoftwareTPM.current
        let object = try await ESAPI.connect(to: tpm.tcti) { esys in
            let storage = try esys.createPrimary(OracleTemplates.storage)
            return try esys.create(
                under: storage, authValue: authValue, sealing: data, template: template,
                session: esys.startSession(.hmac, saltKey: storage))
        }
        try await tpm.restart()
        return object
    }

    private func useWithESAPI<R: Sendable>(
        _ object: ESAPI.WrappedKey, _ authValue: [UInt8], in kind: ESAPI.SessionKind = .hmac,
        _ body: @escaping @Sendable (borrowing ESAPI, UInt32, UInt32) throws -> R
    ) async throws -> R {
        let tpm = try SoftwareTPM.current
        let result = await Result<R, any Error>.of {
            try await ESAPI.connect(to: tpm.tcti) { esys in
                let storage = try esys.createPrimary(OracleTemplates.storage)
                let handle = try esys.load(object, under: storage)
                try esys.setAuthValue(authValue, of: handle)
                return try body(esys, handle, esys.startSession(kind, saltKey: storage))
            }
        }
        try await tpm.restart()
        return try result.get()
    }

    private func signWithESAPI(_ key: ESAPI.WrappedKey, _ authValue: [UInt8]) async throws -> (
        r: [UInt8], s: [UInt8]
    ) {
        try await useWithESAPI(key, authValue) { esys, key, session in
            try esys.sign(Self.digest, with: key, session: session)
        }
    }

    // MARK: What both make is judged by swift-crypto

    private func area(of key: ESAPI.WrappedKey) throws -> PublicArea {
        try PublicArea(unmarshalling: key.publicArea.dropFirst(2))
    }

    private func isValid(_ signature: (r: [UInt8], s: [UInt8]), by key: ESAPI.WrappedKey) throws
        -> Bool
    {
        let point = try #require(area(of: key).p256Point?.p256Representation)
        let raw = [signature.r, signature.s].flatMap {
            Array(repeating: 0, count: 32 - $0.count) + $0
        }
        return try P256.Signing.PublicKey(x963Representation: point).isValidSignature(
            P256.Signing.ECDSASignature(rawRepresentation: raw), for: SHA256.hash(data: [1, 2, 3]))
    }
}

extension Result where Failure == any Error {
    fileprivate static func of(_ body: () async throws -> Success) async -> Self {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}
