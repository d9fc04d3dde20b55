import Crypto
import Foundation
import Latchkey
import LatchkeyTestSupport
import TPM2
import Testing

@testable import LatchkeyRelyingParty

/// The attempts with statements, attestation keys and endorsements.
extension RefusalTableTests {
    static var statements: [Attempt] {
        [
            Attempt(24, "a replayed statement", .refused(.wrongChallenge)) { rig in
                try await rig.verify(
                    rig.good, rig.finger.presence, challenge: Data(SHA256.hash(data: rig.challenge))
                )
            },
            Attempt(25, "a statement about another key", .refused(.wrongName)) { rig in
                let other = try rig.own.create(
                    RawTPM.signingArea(RefusalRig.gated, rig.finger.branches))
                return try await rig.verify((other, rig.good.said), rig.finger.presence)
            },
            Attempt(26, "one byte of the clock changed", .refused(.invalidSignature)) { rig in
                var changed = rig.good
                changed.said.bytes[80] ^= 1
                return try await rig.verify(changed, rig.finger.presence)
            },
            Attempt(27, "the attestation key of another TPM", .refused(.invalidSignature)) { rig in
                let other = try RefusalRig.activate(
                    rig.foreign.createAttestationKey(), in: rig.foreign, at: rig.authority)
                return try await rig.verify(rig.good, rig.finger.presence, certificates: other)
            },
            Attempt(28, "a quote", .refused(.wrongType)) { rig in
                let quote = try rig.own.quote(
                    by: rig.attestationKey, challenge: Array(rig.challenge))
                return try await rig.verify(
                    (rig.good.key, RefusalRig.Said(quote)), rig.finger.presence)
            },
        ]
    }

    static var attestationKeys: [Attempt] {
        func begin(_ area: PublicArea, _ rig: RefusalRig) throws -> RefusalRig.Outcome {
            _ = try rig.authority.challenge(
                endorsement: [rig.own.endorsementCertificate], attestationKey: Data(area.marshalled)
            )
            return .done
        }
        return [
            Attempt(
                29, "an attestation key that is not restricted",
                .refused(.unrestrictedAttestationKey)
            ) { rig in
                try begin(rig.own.create(RawTPM.signingArea(RefusalRig.open)).area, rig)
            },
            // This is why attempt 29 must be refused.
            Attempt(30, "a statement that it forged, if a server certified it", .accepted(.finger))
            { rig in
                let signer = try rig.own.create(RawTPM.signingArea(RefusalRig.open))
                let area = RawTPM.signingArea(
                    RefusalRig.gated, rig.finger.branches, of: rig.software.publicKey)
                let forged = AttestationRig.certInfo(
                    extraData: rig.challenge, name: try area.name.bytes)
                let signature = try rig.own.sign(Array(SHA256.hash(data: forged)), with: signer)
                return try await rig.verify(
                    RefusalRig.Said(forged, signature), Data(area.marshalled), rig.finger.presence,
                    certificates: rig.certificateWithoutChecks(for: signer))
            },
            Attempt(31, "a restricted key that signs a digest of FF 54 43 47", .tpm(0x3e0)) { rig in
                _ = try rig.own.sign(
                    Array(SHA256.hash(data: [0xff, 0x54, 0x43, 0x47])), with: rig.attestationKey)
                return .done
            },
            Attempt(32, "TPM2_Hash of FF 54 43 47 gives the null ticket", .done) { rig in
                let ticket = try rig.own.hashTicket([0xff, 0x54, 0x43, 0x47, 0x80, 0x17])
                #expect(ticket.hierarchy == .null && ticket.digest.isEmpty)
                return .done
            },
            Attempt(33, "an attestation key that decrypts", .refused(.unrestrictedAttestationKey)) {
                rig in
                let attributes = RefusalRig.open.union([.restricted, .decrypt])
                return try begin(RawTPM.signingArea(attributes, of: rig.software.publicKey), rig)
            },
            Attempt(
                48, "an attestation key with a policy", .refused(.unrestrictedAttestationKey)
            ) { rig in
                let attributes = RefusalRig.open.union(.restricted)
                return try begin(
                    rig.own.create(
                        RawTPM.signingArea(
                            attributes, [PolicyDigest().commandCode(.activateCredential)])
                    ).area, rig)
            },
            Attempt(
                49, "the same in software, whose policy permits the activation",
                .refused(.unrestrictedAttestationKey)
            ) { rig in
                let attributes = RefusalRig.open.union([.restricted, .adminWithPolicy])
                return try begin(
                    RawTPM.signingArea(
                        attributes, [PolicyDigest().commandCode(.activateCredential)],
                        of: rig.software.publicKey), rig)
            },
            Attempt(
                50, "an attestation key without userWithAuth",
                .refused(.unrestrictedAttestationKey)
            ) { rig in
                let attributes = RefusalRig.gated.union(.restricted)
                return try begin(
                    RawTPM.signingArea(attributes, of: rig.software.publicKey), rig)
            },
        ]
    }

    static var endorsements: [Attempt] { activations + certificates }

    private static var activations: [Attempt] {
        func challenge(_ key: RawTPM.Key, _ rig: RefusalRig) throws
            -> EndorsementAuthority.Challenge
        {
            try rig.authority.challenge(
                endorsement: [rig.own.endorsementCertificate],
                attestationKey: Data(key.area.marshalled)
            ).0
        }
        func open(
            _ challenge: EndorsementAuthority.Challenge, _ key: RawTPM.Key, in tpm: RawTPM
        ) throws(TPMError) -> RefusalRig.Outcome {
            try tpm.with(key) { (object) throws(TPMError) in
                _ = try tpm.activate(
                    object, blob: challenge.credentialBlob, secret: challenge.encryptedSecret)
            }
            return .done
        }
        return [
            Attempt(34, "the attestation key and the endorsement key of one TPM", .done) { rig in
                let key = try rig.own.createAttestationKey()
                #expect(try RefusalRig.activate(key, in: rig.own, at: rig.authority).count == 2)
                return .done
            },
            Attempt(35, "the attestation key of another TPM, loaded", .tpm(0x1df)) { rig in
                try rig.own.with(rig.foreign.createAttestationKey()) { (_) throws(TPMError) in }
                return .done
            },
            Attempt(36, "the same, its public part only", .tpm(0x12f)) { rig in
                let key = try rig.foreign.createAttestationKey()
                let challenge = try challenge(key, rig)
                try rig.own.tpm.lending(rig.own.tpm.execute(LoadExternal(key.area, in: .owner))) {
                    (object) throws(TPMError) in
                    _ = try rig.own.activate(
                        object, blob: challenge.credentialBlob, secret: challenge.encryptedSecret)
                }
                return .done
            },
            Attempt(37, "a challenge for one TPM, given to the other", .tpm(0x1df)) { rig in
                let key = try rig.foreign.createAttestationKey()
                return try open(challenge(key, rig), key, in: rig.foreign)
            },
            Attempt(38, "a challenge for another Name", .tpm(0x1df)) { rig in
                try open(
                    challenge(rig.own.createAttestationKey(), rig), rig.attestationKey, in: rig.own)
            },
            Attempt(39, "one byte of the challenge changed", .tpm(0x1df)) { rig in
                let right = try challenge(rig.attestationKey, rig)
                var blob = right.credentialBlob
                blob[blob.count - 1] ^= 1
                return try open(
                    .init(credentialBlob: blob, encryptedSecret: right.encryptedSecret),
                    rig.attestationKey, in: rig.own
                )
            },
        ]
    }

    private static var certificates: [Attempt] {
        func read(
            _ certificate: Data, _ group: AttestationAnchors.Group, time: Date = Date()
        ) throws -> RefusalRig.Outcome {
            _ = try EndorsementCertificate(
                [certificate], anchors: AttestationAnchors(tpm: group),
                time: Int64(time.timeIntervalSince1970))
            return .done
        }
        return [
            Attempt(40, "an endorsement of another authority", .refused(.untrustedEndorsement)) {
                rig in
                try read(rig.foreign.endorsementCertificate, rig.ownAuthority)
            },
            Attempt(
                41, "the same, with its intermediate of the same name",
                .refused(.untrustedEndorsement)
            ) { rig in
                try read(
                    rig.foreign.endorsementCertificate,
                    .init(
                        roots: rig.ownAuthority.roots,
                        intermediates: rig.foreignAuthority.intermediates))
            },
            Attempt(
                42, "a simulator under the roots of manufacturers", .refused(.untrustedEndorsement)
            ) { rig in
                let files = try FileManager.default.contentsOfDirectory(
                    at: AttestationVectors.folder.appending(path: "roots"),
                    includingPropertiesForKeys: nil)
                return try read(
                    rig.own.endorsementCertificate,
                    .init(roots: files.map { try Data(contentsOf: $0) }))
            },
            Attempt(43, "an endorsement before its validity", .refused(.certificateExpired)) {
                rig in
                // 2020-01-01.
                try read(
                    rig.own.endorsementCertificate, rig.ownAuthority,
                    time: Date(timeIntervalSince1970: 1_577_836_800))
            },
            Attempt(
                44, "an attestation key's certificate as endorsement", .refused(.wrongEndorsement)
            ) { rig in
                try read(rig.chain[0], .init(roots: [rig.chain[1]]))
            },
        ]
    }
}
