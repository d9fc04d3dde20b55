import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyRelyingParty

/// Attempts at a wrong verdict, with the exact code of the server or the TPM. Numbers up to 44 are
/// those of `negative.py`, the script of the reference on attestation.
@Suite(
    "The attempts that attestation refuses", .softwareTPM(.endorsementCertificate),
    .requires(program: "swtpm_setup"))
struct RefusalTableTests {
    typealias Attempt = RefusalRig.Attempt

    private func expect(_ attempts: [Attempt]) async throws {
        try await SoftwareTPM.withRunning(.endorsementCertificate) { foreign in
            let rig = try RefusalRig(SoftwareTPM.current, foreign)
            for attempt in attempts {
                let outcome = try await rig.outcome(of: attempt)
                #expect(outcome == attempt.expected, "\(attempt.number): \(attempt.title)")
            }
        }
    }

    @Test func `the table is complete`() {
        let all = Self.keys + Self.statements + Self.attestationKeys + Self.endorsements
        #expect(all.map(\.number).sorted() == Array(1...50))
    }

    @Test func `keys get the verdict that their hardware enforces, or are refused`() async throws {
        try await expect(Self.keys)
    }

    @Test func `statements for another challenge or key are refused`() async throws {
        try await expect(Self.statements)
    }

    @Test func `attestation keys that could sign forged statements are refused`() async throws {
        try await expect(Self.attestationKeys)
    }

    @Test func `attestation keys of another TPM and foreign endorsements are refused`() async throws
    {
        try await expect(Self.endorsements)
    }

    // MARK: Keys

    static var keys: [Attempt] {
        gates + policies + imports + parents + branches
    }

    private static var gates: [Attempt] {
        [
            Attempt(1, "a finger key, the broker known", .accepted(.finger)) { rig in
                try await rig.verify(rig.good, rig.finger.presence)
            },
            Attempt(2, "a finger key, the broker unknown", .refused(.unknownApprovalKey)) { rig in
                try await rig.verify(rig.good, rig.finger.presence, knowsBroker: false)
            },
            Attempt(3, "userWithAuth and the empty authValue", .refused(.insufficientPresence)) {
                rig in
                let key = try rig.certified(
                    RefusalRig.gated.union(.userWithAuth), rig.finger.branches)
                return try await rig.verify(key, rig.finger.presence)
            },
            Attempt(4, "this key signs", .done) { rig in
                let area = RawTPM.signingArea(
                    RefusalRig.gated.union(.userWithAuth), rig.finger.branches)
                _ = try rig.own.sign(Array(rig.challenge), with: rig.own.create(area))
                return .done
            },
            Attempt(5, "the form of a PIN with the empty authValue", .accepted(.pin)) { rig in
                let key = try rig.certified(RawTPM.born.union(.userWithAuth), [])
                return try await rig.verify(key, nil, require: .presence)
            },
            Attempt(6, "this key signs", .done) { rig in
                let area = RawTPM.signingArea(RawTPM.born.union(.userWithAuth))
                _ = try rig.own.sign(Array(rig.challenge), with: rig.own.create(area))
                return .done
            },
        ]
    }

    private static var policies: [Attempt] {
        func other(_ rig: RefusalRig) throws -> RawTPM.Finger {
            try RawTPM.Finger(rig.own.create(RawTPM.signingArea(RefusalRig.open)))
        }
        return [
            Attempt(7, "a policy for another approval key than declared", .refused(.wrongPolicy)) {
                rig in
                let key = try rig.certified(RefusalRig.gated, other(rig).branches)
                return try await rig.verify(key, rig.finger.presence)
            },
            Attempt(8, "the same, declared", .refused(.unknownApprovalKey)) { rig in
                let finger = try other(rig)
                return try await rig.verify(
                    rig.certified(RefusalRig.gated, finger.branches), finger.presence)
            },
            Attempt(9, "a policy for another user than declared", .refused(.wrongPolicy)) { rig in
                try await rig.verify(
                    rig.good, RawTPM.Finger(rig.finger.approvalKey, user: 1001).presence)
            },
            Attempt(10, "a branch that is not declared", .refused(.wrongPolicy)) { rig in
                let second = try other(rig)
                let key = try rig.certified(
                    RefusalRig.gated, rig.finger.branches + second.branches)
                return try await rig.verify(key, rig.finger.presence)
            },
            Attempt(11, "a hidden branch PolicyAuthValue", .refused(.wrongPolicy)) { rig in
                let branches = rig.finger.branches + [PolicyDigest().authValue()]
                return try await rig.verify(
                    rig.certified(RefusalRig.gated, branches), rig.finger.presence)
            },
        ]
    }

    private static var imports: [Attempt] {
        func imported(_ attributes: ObjectAttributes, _ rig: RefusalRig) async throws
            -> RefusalRig.Outcome
        {
            let key = try rig.own.importing(rig.software, attributes, rig.finger.branches)
            return try await rig.verify(rig.certified(key), rig.finger.presence)
        }
        return [
            Attempt(12, "an imported software key", .refused(.wrongAttributes)) {
                try await imported(RawTPM.gated, $0)
            },
            Attempt(13, "the same, with fixedTPM", .tpm(0x2c2)) {
                try await imported(RefusalRig.gated, $0)
            },
            Attempt(14, "the same, with sensitiveDataOrigin only", .refused(.wrongAttributes)) {
                try await imported(RawTPM.gated.union(.sensitiveDataOrigin), $0)
            },
            Attempt(15, "Create without sensitiveDataOrigin", .tpm(0x2c2)) { rig in
                _ = try rig.own.create(
                    RawTPM.signingArea([.fixedTPM, .fixedParent, .userWithAuth]))
                return .done
            },
            Attempt(16, "Create with the private key", .tpm(0x2c2)) { rig in
                _ = try rig.own.tpm.execute(
                    Create(
                        RawTPM.signingArea([.fixedTPM, .fixedParent, .userWithAuth]),
                        sealing: SensitiveData(Array(rig.software.rawRepresentation)),
                        under: rig.own.parent))
                return .done
            },
            Attempt(17, "LoadExternal with the private key and fixedTPM", .tpm(0x2c2)) { rig in
                try rig.own.loadPrivate(rig.software, RefusalRig.gated)
                return .done
            },
        ]
    }

    private static var parents: [Attempt] {
        func publicPart(
            _ rig: RefusalRig, _ body: (TPMObject, TPMObject) throws(TPMError) -> Void
        ) throws -> RefusalRig.Outcome {
            let area = RawTPM.signingArea(
                RefusalRig.open, [RawTPM.certifyBranch], of: rig.software.publicKey)
            let tpm = rig.own.tpm
            try tpm.lending(tpm.execute(LoadExternal(area, in: .owner))) {
                (object) throws(TPMError) in
                try rig.own.with(rig.attestationKey) { (signer) throws(TPMError) in
                    try body(object, signer)
                }
            }
            return .done
        }
        func movable(_ rig: RefusalRig) throws -> TPMObject {
            let parent = try rig.own.create(RawTPM.storageTemplate(.sensitiveDataOrigin))
            return try rig.own.tpm.execute(
                Load(parent.privatePart, parent.area, under: rig.own.parent))
        }
        return [
            Attempt(18, "Certify of a public part, by password", .tpm(0x12f)) { rig in
                try publicPart(rig) { (object, signer) throws(TPMError) in
                    _ = try rig.own.tpm.execute(
                        Certify(object, by: signer, challenge: Array(rig.challenge)))
                }
            },
            Attempt(19, "the same, by the branch", .tpm(0x12f)) { rig in
                try publicPart(rig) { (object, signer) throws(TPMError) in
                    try rig.own.tpm.withSession(.policy, saltedTo: nil) {
                        (session) throws(TPMError) in
                        try rig.own.tpm.execute(PolicyCommandCode(.certify), in: session)
                        _ = try rig.own.tpm.execute(
                            Certify(object, by: signer, challenge: Array(rig.challenge)),
                            authorizedBy: .lastUse(of: session))
                    }
                }
            },
            Attempt(20, "CertifyCreation with the ticket of another key", .tpm(0x4e0)) { rig in
                let created = try #require(rig.good.key.created)
                return try publicPart(rig) { (object, signer) throws(TPMError) in
                    _ = try rig.own.tpm.execute(
                        CertifyCreation(
                            of: object, creationHash: created.creationHash,
                            creationTicket: created.creationTicket, challenge: Array(rig.challenge),
                            by: signer))
                }
            },
            Attempt(21, "fixedTPM below a parent that can be duplicated", .tpm(0x2c2)) { rig in
                _ = try rig.own.create(
                    RawTPM.signingArea(RefusalRig.gated, rig.finger.branches), under: movable(rig))
                return .done
            },
            Attempt(22, "fixedParent only, below such a parent", .refused(.wrongAttributes)) {
                rig in
                let parent = try movable(rig)
                let area = RawTPM.signingArea(
                    RefusalRig.gated.subtracting(.fixedTPM), rig.finger.branches)
                let key = try rig.own.create(area, under: parent)
                let object = try rig.own.tpm.execute(Load(key.privatePart, key.area, under: parent))
                // The TPM has three slots.
                try rig.own.tpm.execute(FlushContext(parent.handle))
                let said = try rig.own.certify(
                    object, by: rig.attestationKey, challenge: Array(rig.challenge))
                return try await rig.verify((key, RefusalRig.Said(said)), rig.finger.presence)
            },
            Attempt(23, "a restricted key", .refused(.wrongAttributes)) { rig in
                let key = try rig.certified(
                    RefusalRig.gated.union(.restricted), rig.finger.branches)
                return try await rig.verify(key, rig.finger.presence)
            },
        ]
    }

    /// Policies with a branch for a command, which names no role of the key.
    private static var branches: [Attempt] {
        func permissive(_ rig: RefusalRig) throws -> (RawTPM.Key, [PolicyDigest]) {
            let branches = rig.finger.branches + [RawTPM.certifyBranch]
            let key = try rig.own.create(
                RawTPM.signingArea(RawTPM.born.union([.adminWithPolicy, .noDA]), branches))
            return (key, branches)
        }
        return [
            Attempt(45, "a finger key with a branch for Certify signs a statement", .done) { rig in
                let (key, branches) = try permissive(rig)
                let said = try rig.own.certifyParent(
                    bySatisfying: branches, of: key, challenge: Array(rig.challenge))
                guard case .ecdsa(_, let r, let s) = said.signature else { return .tpm(0) }
                let signature = try #require(ECDSASignature(r: r, s: s))
                #expect(
                    try P256Area(Data(key.area.marshalled)).publicKey.isValid(
                        signature, for: MessageDigest(sha256: said.bytes)))
                return .done
            },
            // This is why attempts 46 and 47 must be refused.
            Attempt(46, "this branch, declared", .refused(.wrongPolicy)) { rig in
                let (key, _) = try permissive(rig)
                return try await rig.verify(
                    rig.created(key),
                    #"{"version":1,"branches":[\#(rig.finger.json),{"type":"certify"}]}"#)
            },
            Attempt(47, "this branch, not declared", .refused(.wrongPolicy)) { rig in
                let (key, _) = try permissive(rig)
                return try await rig.verify(rig.created(key), rig.finger.presence)
            },
        ]
    }
}
