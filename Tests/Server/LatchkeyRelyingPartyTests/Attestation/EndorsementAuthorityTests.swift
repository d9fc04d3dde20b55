import Crypto
import CryptoExtras
import Foundation
import Latchkey
import LatchkeyTestSupport
import SwiftASN1
import TPM2
import Testing
import X509

@testable import LatchkeyRelyingParty

@Suite("Activation of attestation keys") struct EndorsementAuthorityTests {
    private let maker = P256.Signing.PrivateKey()
    private let endorsementKey = P256.Signing.PrivateKey()
    private let attestationKey = P256.Signing.PrivateKey()
    private let time = SettableClock(stoppedAt: AttestationRig.time)

    private func group() throws -> AttestationAnchors.Group {
        try .init(roots: [
            AttestationRig.certificate(
                maker.publicKey, subject: AttestationRig.name, by: maker,
                issuer: AttestationRig.name,
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                })
        ])
    }

    private func endorsement(purpose: ASN1ObjectIdentifier = [2, 23, 133, 8, 1]) throws -> Data {
        try AttestationRig.certificate(
            endorsementKey.publicKey, subject: DistinguishedName(), by: maker,
            issuer: AttestationRig.name,
            extensions: AttestationRig.attestationKeyExtensions(purpose: purpose))
    }

    private func area(_ attributes: UInt32 = 0x0005_0472) -> Data {
        AttestationRig.area(
            attestationKey.publicKey, attributes: ObjectAttributes(rawValue: attributes))
    }

    private func issuer() throws -> AttestationIssuer {
        let made = try AttestationIssuer.generate(name: "Example", at: AttestationRig.time)
        return try AttestationIssuer(certificate: made.certificate, privateKey: made.privateKey)
    }

    private func authority(
        _ anchors: AttestationAnchors? = nil, issuer: AttestationIssuer? = nil,
        simulated: AttestationIssuer? = nil,
        days: Int = 90
    ) throws -> EndorsementAuthority {
        EndorsementAuthority(
            anchors: try anchors ?? AttestationAnchors(tpm: group()),
            issuer: try issuer ?? self.issuer(),
            simulatedIssuer: simulated, certificateDays: days, clock: time.clock)
    }

    private func expect<Value>(
        _ code: AttestationError.Code, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () throws -> Value
    ) {
        let error = #expect(throws: AttestationError.self, sourceLocation: sourceLocation) {
            _ = try body()
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
    }

    @Test func `a client with the secret gets a certificate that the verifier accepts`() throws {
        let issuer = try self.issuer()
        let authority = try self.authority(issuer: issuer, days: 30)
        let (challenge, pending) = try authority.challenge(
            endorsement: [endorsement()], attestationKey: area())
        #expect(
            pending.endorsementKeyDigest
                == Data(SHA256.hash(data: endorsementKey.publicKey.derRepresentation)))
        #expect(pending.expiresAt == AttestationRig.time + 60)
        #expect(!pending.isSimulated)
        time.advance(by: 59)
        let secret = try #require(
            try challenge.opened(by: endorsementKey, name: AttestationRig.tpmName(of: area())))
        let chain = try authority.certificate(for: pending, secret: secret)
        #expect(chain.count == 2 && chain.last == issuer.certificate)
        let verified = try AttestationKeyCertificate(
            chain, anchors: AttestationAnchors(aik: .init(roots: [issuer.certificate])),
            time: Int64(time.clock.seconds)
        )
        #expect(verified.publicKey == pending.attestationKey)
        #expect(
            verified.hardware
                == .tpm(manufacturer: "id:49424D00", model: "swtpm", version: "id:20191023"))
        let issued = try Certificate(derEncoded: Array(chain[0]))
        #expect(issued.notValidAfter == time.now + 30 * 86_400)
    }

    @Test func `only the right TPM and Name open a challenge`() throws {
        let (challenge, _) = try authority().challenge(
            endorsement: [endorsement()], attestationKey: area())
        let name = AttestationRig.tpmName(of: area())
        #expect(try challenge.opened(by: endorsementKey, name: name)?.count == 32)
        #expect(try challenge.opened(by: P256.Signing.PrivateKey(), name: name) == nil)
        #expect(
            try challenge.opened(
                by: endorsementKey, name: AttestationRig.tpmName(of: area(0x0005_0072))) == nil)
    }

    @Test func `an activation is refused after a wrong secret, a use, or 60 seconds`() throws {
        let authority = try self.authority()
        let name = AttestationRig.tpmName(of: area())
        func begin() throws -> (secret: Data, pending: PendingActivation) {
            let (challenge, pending) = try authority.challenge(
                endorsement: [endorsement()], attestationKey: area())
            return (try #require(try challenge.opened(by: endorsementKey, name: name)), pending)
        }
        let wrong = try begin()
        for secret in [
            Data(), Data(count: 32), wrong.secret.dropLast(), wrong.secret + [0], wrong.secret,
        ] {
            expect(.activationFailed) {
                try authority.certificate(for: wrong.pending, secret: secret)
            }
        }
        for bit in [0, 7, 128, 255] {
            let (secret, pending) = try begin()
            var changed = Array(secret)
            changed[bit / 8] ^= 1 << (bit % 8)
            expect(.activationFailed) {
                try authority.certificate(for: pending, secret: Data(changed))
            }
        }
        let used = try begin()
        #expect(try authority.certificate(for: used.pending, secret: used.secret).count == 2)
        expect(.activationFailed) {
            try authority.certificate(for: used.pending, secret: used.secret)
        }
        let (first, second) = (try begin(), try begin())
        expect(.activationFailed) {
            try authority.certificate(for: first.pending, secret: second.secret)
        }
        time.advance(by: 60)
        expect(.activationFailed) {
            try authority.certificate(for: second.pending, secret: second.secret)
        }
    }

    @Test func `only the right secret records the TPM of an attestation key`() async throws {
        let registry = DatabaseApprovalKeyRegistry(
            try await TestDatabase.open(DatabaseApprovalKeyRegistry.migrations), clock: time.clock)
        let authority = try self.authority(days: 30)
        let name = Data([0, 11]) + Data(repeating: 9, count: 32)
        func begin() throws -> (secret: Data, pending: PendingActivation) {
            let (challenge, pending) = try authority.challenge(
                endorsement: [endorsement()], attestationKey: area())
            let opened = try challenge.opened(
                by: endorsementKey, name: AttestationRig.tpmName(of: area()))
            return (try #require(opened), pending)
        }
        let (other, pending) = (try begin(), try begin().pending)
        // An attacker with the endorsement certificate of another machine, but not its TPM.
        for secret in [other.secret, Data()] {
            let error = await #expect(throws: AttestationError.self) {
                _ = try await authority.certificate(
                    for: pending, secret: secret, recordingIn: registry)
            }
            #expect(error?.code == .activationFailed)
        }
        #expect(try await !registry.enrol(name, inTPMOf: pending.attestationKey))

        let right = try begin()
        let chain = try await authority.certificate(
            for: right.pending, secret: right.secret, recordingIn: registry)
        #expect(chain.count == 2)
        #expect(try await registry.enrol(name, inTPMOf: right.pending.attestationKey))
        // The record ends with the certificate.
        time.advance(by: 30 * 86_400)
        #expect(try await !registry.isApprovalKey(name, inTPMOf: right.pending.attestationKey))
    }

    @Test func `endorsement certificates without a trusted root are refused`() throws {
        let (endorsement, area) = (try endorsement(), area())
        func challenge(_ certificates: [Data], _ anchors: AttestationAnchors? = nil) throws {
            _ = try authority(anchors).challenge(endorsement: certificates, attestationKey: area)
        }
        expect(.malformed) { try challenge(Array(repeating: endorsement, count: 9)) }
        expect(.malformed) { try challenge([Data(count: 4097)]) }
        expect(.wrongEndorsement) { try challenge([]) }
        // The certificate of an attestation key.
        expect(.wrongEndorsement) {
            try challenge([self.endorsement(purpose: [2, 23, 133, 8, 3])])
        }
        expect(.untrustedEndorsement) { try challenge([endorsement], AttestationAnchors()) }
        expect(.untrustedEndorsement) {
            try challenge(
                [endorsement], AttestationAnchors(tpm: EndorsementAuthorityTests().group()))
        }
        expect(.untrustedEndorsement) {
            try challenge([endorsement], AttestationAnchors(aik: group()))
        }
        try challenge([endorsement])
        time.advance(by: 91 * 86_400)
        expect(.certificateExpired) { try challenge([endorsement]) }
    }

    /// Each step repairs the first defect, and the next one is reported.
    @Test func `the checks of an activation run in the order of the specification`() throws {
        let unrestricted = area(0x0004_0472)
        let other = AttestationAnchors(tpm: try EndorsementAuthorityTests().group())
        time.advance(by: 91 * 86_400)
        func expectNext(
            _ code: AttestationError.Code, _ certificates: [Data], _ anchors: AttestationAnchors,
            sourceLocation: SourceLocation = #_sourceLocation
        ) {
            expect(code, sourceLocation: sourceLocation) {
                try authority(anchors).challenge(
                    endorsement: certificates, attestationKey: unrestricted)
            }
        }
        let wrong = try endorsement(purpose: [2, 23, 133, 8, 3])
        expectNext(.malformed, [Data](repeating: wrong, count: 9), other)
        expectNext(.wrongEndorsement, [wrong], other)
        let right = [try endorsement()]
        expectNext(.untrustedEndorsement, right, other)
        let simulated = AttestationAnchors(simulated: try group())
        expectNext(.certificateExpired, right, simulated)
        time.advance(by: -91 * 86_400)
        expectNext(.simulated, right, simulated)
        let trusted = AttestationAnchors(tpm: try group())
        expectNext(.unrestrictedAttestationKey, right, trusted)
        _ = try authority(trusted).challenge(endorsement: right, attestationKey: area())
    }

    /// The policy could authorize its activation, so that only the TPM's refusal of a public part
    /// protects the certificate.
    @Test(arguments: [0x0005_0472, 0x0005_04f2, 0x0005_0432, 0x0005_04b2] as [UInt32])
    func `an attestation key with a policy is refused`(_ attributes: UInt32) throws {
        let authority = try self.authority()
        for code in [0x147, 0x148, 0x14a] as [UInt32] {
            let area = AttestationRig.area(
                attestationKey.publicKey, attributes: ObjectAttributes(rawValue: attributes),
                policy: PolicyDigest().commandCode(TPMCommandCode(rawValue: code)).bytes)
            expect(.unrestrictedAttestationKey) {
                try authority.challenge(endorsement: [endorsement()], attestationKey: area)
            }
        }
    }

    @Test func `an attestation key that signs data from outside is refused`() throws {
        let authority = try self.authority()
        for area in [area(0x0004_0472), area(0x0007_0472), area() + [0], area().dropLast(), Data()]
        {
            expect(.unrestrictedAttestationKey) {
                try authority.challenge(endorsement: [endorsement()], attestationKey: area)
            }
        }
    }

    @Test func `a simulator needs its own issuer, and its certificates say so`() throws {
        let anchors = AttestationAnchors(simulated: try group())
        expect(.simulated) {
            try self.authority(anchors).challenge(
                endorsement: [endorsement()], attestationKey: area())
        }
        let (real, simulated) = (try self.issuer(), try self.issuer())
        let authority = try self.authority(anchors, issuer: real, simulated: simulated)
        let (challenge, pending) = try authority.challenge(
            endorsement: [endorsement()], attestationKey: area())
        #expect(pending.isSimulated)
        let secret = try #require(
            try challenge.opened(by: endorsementKey, name: AttestationRig.tpmName(of: area())))
        let chain = try authority.certificate(for: pending, secret: secret)
        #expect(chain.last == simulated.certificate)
        let found = try AttestationKeyCertificate(
            chain,
            anchors: AttestationAnchors(
                aik: .init(roots: [real.certificate]),
                simulated: .init(roots: [simulated.certificate])),
            time: Int64(time.clock.seconds))
        #expect(
            found.hardware
                == .simulated(
                    .tpm(manufacturer: "id:49424D00", model: "swtpm", version: "id:20191023")))
        // Without the simulators' issuer as an anchor, the certificate is not trusted.
        expect(.untrustedAttestationKey) {
            try AttestationKeyCertificate(
                chain, anchors: AttestationAnchors(aik: .init(roots: [real.certificate])),
                time: Int64(time.clock.seconds))
        }
    }

    @Test func `an issuer has its own private key`() throws {
        let (one, other) = (
            try AttestationIssuer.generate(name: "Example", at: AttestationRig.time),
            try AttestationIssuer.generate(name: "Example", at: AttestationRig.time)
        )
        for key in [other.privateKey, "", "-----BEGIN PRIVATE KEY-----\n"] {
            #expect(throws: AttestationAnchorError.self) {
                try AttestationIssuer(certificate: one.certificate, privateKey: key)
            }
        }
        let leaf = try endorsement()
        #expect(throws: AttestationAnchorError.self) {
            try AttestationIssuer(certificate: leaf, privateKey: endorsementKey.pemRepresentation)
        }
    }
}

extension EndorsementAuthority.Challenge {
    /// Opens the challenge as a TPM does, with the key derivation of `TPM2`.
    ///
    /// - Parameter key: The endorsement key on P-256.
    /// - Returns: The secret, or nil if the challenge is for another endorsement key or another
    ///   Name.
    func opened(by key: P256.Signing.PrivateKey, name: [UInt8]) throws -> Data? {
        var reader = TPMReader(encryptedSecret)
        let (x, y) = (try reader.readSized(maximum: 32), try reader.readSized(maximum: 32))
        try reader.finish()
        let own = try P256.KeyAgreement.PrivateKey(rawRepresentation: key.rawRepresentation)
        let seed = KeyDerivation.kdfe(
            sharedSecret: try own.sharedSecretFromKeyAgreement(
                with: P256.KeyAgreement.PublicKey(x963Representation: [4] + x + y)),
            label: "IDENTITY", partyU: x, partyV: Array(own.publicKey.rawRepresentation.prefix(32)))
        reader = TPMReader(credentialBlob)
        let mac = try reader.readSized(maximum: 32)
        let encrypted = Data(credentialBlob.dropFirst(34))
        let macKey = KeyDerivation.kdfa(key: seed, label: "INTEGRITY", contextU: [], contextV: [])
        guard
            HMAC<SHA256>.isValidAuthenticationCode(
                mac, authenticating: encrypted + name, using: macKey)
        else { return nil }
        // KDFa states the number of bits, so TPM2's function for 256 bits does not compute a key of
        // 128 bits.
        let message = [0, 0, 0, 1] + Array("STORAGE".utf8) + [0] + name + [0, 0, 0, 128]
        let cipherKey = SymmetricKey(
            data: Data(HMAC<SHA256>.authenticationCode(for: message, using: seed)).prefix(16))
        let plain = try AES._CFB.decrypt(
            encrypted, using: cipherKey, iv: AES._CFB.IV(ivBytes: [UInt8](repeating: 0, count: 16)))
        return plain.dropFirst(2)
    }
}
