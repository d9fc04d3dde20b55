import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import Testing

@Suite("Attestation of keys") struct AttestationTests {
    private static func attestation(
        format: String = "tpm", statement: String = AttestationFixture.creationStatement,
        signature: String = AttestationFixture.creationSignature,
        key: String = AttestationFixture.key,
        attestationKey: String = AttestationFixture.attestationKey
    ) throws -> KeyAttestation {
        KeyAttestation(
            format: format, statement: try bytes(statement), signature: try bytes(signature),
            publicArea: try bytes(key), attestationKey: try bytes(attestationKey),
            certificates: [Data([1, 2, 3])])
    }

    private static func bytes(_ base64: String) throws -> Data {
        try #require(Data(base64Encoded: base64))
    }

    private func verify(
        _ attestation: KeyAttestation, challenge: [UInt8] = AttestationFixture.challenge
    ) throws
        -> AttestedKey
    {
        try KeyAttestationVerifier().verify(attestation, challenge: challenge)
    }

    private func expect(
        _ code: AttestationError.Code, _ attestation: KeyAttestation,
        challenge: [UInt8] = AttestationFixture.challenge,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            try verify(attestation, challenge: challenge)
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test func `an attestation by a TPM is accepted`() throws {
        let attested = try verify(try Self.attestation())
        #expect(try Self.bytes(AttestationFixture.key).suffix(34).prefix(2) == Data([0, 32]))
        #expect(try attested.publicKey.y == Self.bytes(AttestationFixture.key).suffix(32))
        #expect(
            try attested.attestationKey.y
                == Self.bytes(AttestationFixture.attestationKey).suffix(32))
        #expect(attested.certificates == [Data([1, 2, 3])])
    }

    @Test func `another format is refused`() throws {
        expect(.unsupportedFormat, try Self.attestation(format: "pkcs11"))
    }

    @Test func `another challenge is refused`() throws {
        expect(
            .wrongChallenge, try Self.attestation(),
            challenge: AttestationFixture.challenge.reversed())
        expect(
            .wrongChallenge, try Self.attestation(),
            challenge: Array(AttestationFixture.challenge.dropLast()))
        expect(.wrongChallenge, try Self.attestation(), challenge: [])
    }

    @Test func `a statement about another key is refused`() throws {
        expect(.wrongName, try Self.attestation(key: AttestationFixture.unrestrictedKey))
    }

    @Test func `a statement of another type is refused`() throws {
        expect(
            .wrongType,
            try Self.attestation(
                statement: AttestationFixture.certifyStatement,
                signature: AttestationFixture.certifySignature))
    }

    @Test func `a statement that a TPM did not make is refused`() throws {
        var statement = try Self.bytes(AttestationFixture.creationStatement)
        statement[0] = 0
        expect(.wrongMagic, try Self.attestation(statement: statement.base64EncodedString()))
    }

    @Test func `a key that can leave its TPM is refused`() throws {
        expect(
            .wrongAttributes,
            try Self.attestation(
                statement: AttestationFixture.movableStatement,
                signature: AttestationFixture.movableSignature,
                key: AttestationFixture.movableKey))
    }

    @Test func `an unrestricted attestation key is refused`() throws {
        expect(
            .unrestrictedAttestationKey,
            try Self.attestation(
                statement: AttestationFixture.byUnrestrictedStatement,
                signature: AttestationFixture.byUnrestrictedSignature,
                attestationKey: AttestationFixture.unrestrictedKey))
    }

    @Test func `a signature by another key, or no signature, is refused`() throws {
        expect(
            .invalidSignature, try Self.attestation(signature: AttestationFixture.movableSignature))
        expect(.invalidSignature, try Self.attestation(signature: ""))
    }

    @Test(arguments: [
        (0..<2, [0x00, 0x01]),  // TPM_ALG_RSA
        (2..<4, [0x00, 0x0c]),  // a Name with SHA-384
        (10..<12, [0x00, 0x06, 0x00, 0x80, 0x00, 0x43]),  // AES-128 in CFB mode
        (12..<14, [0x00, 0x14]),  // RSASSA
        (14..<16, [0x00, 0x0c]),  // ECDSA with SHA-384
        (16..<18, [0x00, 0x04]),  // P-384
        (18..<20, [0x00, 0x20, 0x00, 0x0b]),  // KDF1_SP800_56A
        (20..<22, [0x00, 0x21, 0x00]),  // an x coordinate of 33 bytes
    ]) func `only a P-256 key that signs SHA-256 digests is accepted`(
        range: Range<Int>, bytes: [UInt8]
    ) throws {
        func changed(_ publicArea: String) throws -> String {
            var area = try Self.bytes(publicArea)
            area.replaceSubrange(range, with: bytes)
            return area.base64EncodedString()
        }
        expect(.malformed, try Self.attestation(key: changed(AttestationFixture.key)))
        expect(
            .malformed,
            try Self.attestation(attestationKey: changed(AttestationFixture.attestationKey)))
    }

    /// Every prefix, and every byte changed: nothing crashes, and only the original is accepted. A
    /// changed attestation key has another Name.
    @Test func `truncated or changed bytes are refused`() throws {
        let good = try Self.attestation()
        let name = try verify(good).attestationKeyName
        #expect(name == Data([0x00, 0x0B]) + Data(SHA256.hash(data: good.attestationKey)))
        for (field, bytes) in [good.statement, good.publicArea, good.attestationKey].enumerated() {
            func replaced(_ new: Data) -> KeyAttestation {
                KeyAttestation(
                    format: "tpm", statement: field == 0 ? new : good.statement,
                    signature: good.signature,
                    publicArea: field == 1 ? new : good.publicArea,
                    attestationKey: field == 2 ? new : good.attestationKey, certificates: [])
            }
            for length in 0..<bytes.count {
                expect(.malformed, replaced(bytes.prefix(length)))
            }
            expect(.malformed, replaced(bytes + [0]))
            for index in bytes.indices {
                var changed = bytes
                changed[index] ^= 0x01
                let outcome = Result { try verify(replaced(changed)) }
                if field == 2, case .success(let attested) = outcome {
                    #expect(attested.attestationKeyName != name)
                    #expect(attested.publicKey.y == good.publicArea.suffix(32))
                } else {
                    #expect(throws: AttestationError.self, "field \(field), byte \(index)") {
                        try outcome.get()
                    }
                }
            }
        }
    }
}
