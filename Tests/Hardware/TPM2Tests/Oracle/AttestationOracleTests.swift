import Crypto
import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Certify and ActivateCredential on the same TPM, by ESAPI and by `TPM2`.
@Suite(.softwareTPM) struct `ESAPI and TPM2 attest alike` {
    private static let challenge = [UInt8](0..<32)
    /// A restricted signing key, and a signing key; both with noDA and the empty authValue.
    private static let signer = OracleTemplates.signing(policy: [], attributes: 0x0005_0472)
    private static let key = OracleTemplates.signing(policy: [], attributes: 0x0004_0472)

    private struct Said: Sendable {
        let statement: [UInt8]
        let signature: [UInt8]
    }

    /// Keys of one TPM, whose parent both implementations derive from the same template.
    private func keys() async throws -> (signer: ESAPI.WrappedKey, key: ESAPI.WrappedKey) {
        try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { native in
            (
                try native.create(Self.signer, authValue: []),
                try native.create(Self.key, authValue: [])
            )
        }
    }

    private static func area(_ key: ESAPI.WrappedKey) throws -> PublicArea {
        try PublicArea(unmarshalling: key.publicArea.dropFirst(2))
    }

    /// What `TPM2` reads in a statement, whose signature swift-crypto verifies.
    private func read(_ said: Said, _ signer: ESAPI.WrappedKey) throws -> Attest {
        guard case .ecdsa(.sha256, let r, let s) = try TPMSignature(unmarshalling: said.signature)
        else {
            throw TPMError(.malformed, reason: "not ECDSA with SHA-256")
        }
        let point = try #require(Self.area(signer).p256Point?.p256Representation)
        let raw = [r, s].flatMap { Array(repeating: 0, count: 32 - $0.count) + $0 }
        #expect(
            try P256.Signing.PublicKey(x963Representation: point).isValidSignature(
                P256.Signing.ECDSASignature(rawRepresentation: raw),
                for: SHA256.hash(data: said.statement)))
        return try Attest(unmarshalling: said.statement)
    }

    @Test func `both certify a key with the same statement`() async throws {
        let (signer, key) = try await keys()
        let theirs = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let storage = try esys.createPrimary(OracleTemplates.storage)
            let (object, signing) = (
                try esys.load(key, under: storage), try esys.load(signer, under: storage)
            )
            defer { for handle in [object, signing, storage] { try? esys.flush(handle) } }
            let (statement, signature) = try esys.certify(
                object, by: signing, challenge: Self.challenge)
            return Said(statement: statement, signature: signature)
        }
        let ours = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { native in
            let said = try native.lending(key, signer) { object, signer in
                try native.tpm.execute(Certify(object, by: signer, challenge: Self.challenge))
            }
            return Said(statement: said.bytes, signature: said.signature.marshalled)
        }
        let attests = [try read(theirs, signer), try read(ours, signer)]
        #expect(attests[0] == attests[1])
        #expect(attests[0].extraData == Self.challenge)
        guard case .certify(let name, _) = attests[0].statement else {
            Issue.record("\(attests[0].statement)")
            return
        }
        let expected = try Self.area(key).name
        #expect(name == expected)
        // tpm2-tss reads and writes our statement as it is.
        let rewritten = try MarshallingUnit.rewritten(attest: ours.statement)
        #expect(rewritten == ours.statement)
    }

    @Test func `a credential that ESAPI makes is opened by both, for its key only`() async throws {
        let (signer, key) = try await keys()
        let credential = [UInt8](repeating: 0x5a, count: 32)
        let name = try Self.area(signer).name.bytes
        let (made, theirs) = try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let storage = try esys.createPrimary(OracleTemplates.storage)
            let signing = try esys.load(signer, under: storage)
            defer { for handle in [signing, storage] { try? esys.flush(handle) } }
            let (blob, secret) = try esys.makeCredential(credential, under: storage, for: name)
            let opened = try esys.activateCredential(
                blob, secret: secret, for: signing, with: storage)
            return (Said(statement: blob, signature: secret), opened)
        }
        #expect(theirs == credential)
        let code = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { native in
            try native.lending(key, signer) { other, object in
                let ours = try native.open(made.statement, made.signature, for: object)
                #expect(ours == credential)
                return TestTPM.code { () throws(TPMError) in
                    _ = try native.open(made.statement, made.signature, for: other)
                }
            }
        }
        // TPM_RC_INTEGRITY, parameter 1.
        #expect(code == 0x1df)
    }
}

extension NativeTPM {
    /// Loads two keys and lends them to `body`.
    fileprivate func lending<R>(
        _ first: ESAPI.WrappedKey, _ second: ESAPI.WrappedKey,
        _ body: (TPMObject, TPMObject) throws -> R
    ) throws -> R {
        let one = try load(first)
        defer { try? tpm.execute(FlushContext(one.handle)) }
        let two = try load(second)
        defer { try? tpm.execute(FlushContext(two.handle)) }
        return try body(one, two)
    }

    fileprivate func open(
        _ blob: [UInt8], _ secret: [UInt8], for object: TPMObject
    ) throws(TPMError) -> [UInt8] {
        try tpm.execute(ActivateCredential(blob, secret: secret, for: object, with: storage)).bytes
    }
}
