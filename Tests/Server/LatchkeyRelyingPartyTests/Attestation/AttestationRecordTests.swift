import Crypto
import Foundation
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import LatchkeyRelyingParty

@Suite("Stored proofs and approval keys") struct AttestationRecordTests {
    private static func verdict(
        _ hardware: AttestationVerdict.Hardware, _ presence: AssuranceLevel.EnforcedPresence?,
        reuse: Int = 0,
        diesWithFingers: Bool = false
    ) throws -> AttestationVerdict {
        AttestationVerdict(
            publicKey: try PublicKey(
                x963Representation: P256.Signing.PrivateKey().publicKey.x963Representation),
            hardware: hardware, presence: presence, provesPIN: .none, reuseSeconds: reuse,
            diesWithFingers: diesWithFingers, approvalKeys: [Data([0, 11]), Data([0, 12])],
            certificateSerial: Data([1, 2]))
    }

    private static let tpm = AttestationVerdict.Hardware.tpm(
        manufacturer: "id:49465800", model: "SLB9672", version: "id:00100013")

    @Test(
        arguments: [
            (
                tpm, AssuranceLevel.EnforcedPresence.finger, 0, false,
                "key in a TPM of IFX (SLB9672, firmware 00100013), opens with a fingerprint only"
            ),
            (
                tpm, .finger, 30, true,
                "key in a TPM of IFX (SLB9672, firmware 00100013), opens with a fingerprint only, again within 30 s, "
                    + "until the enrolled fingers change"
            ),
            (
                .simulated(.tpm(manufacturer: "id:00001014", model: "swtpm", version: "1")),
                .fingerOrPIN, 0, false,
                "key in a simulated TPM of id:00001014 (swtpm, firmware 1), opens with a fingerprint or a PIN"
            ),
            (
                .tpm(manufacturer: "Example", model: "A", version: "B"), nil, 0, false,
                "key in a TPM of Example (A, firmware B), opens with the approval of an unknown key"
            ),
            (
                .yubiKey(firmware: "5.4.3", serial: 123), .touch, 0, false,
                "key in a YubiKey (firmware 5.4.3, serial number 123), opens with a touch"
            ),
            (
                .yubiKey(firmware: "5.4.3", serial: nil), .touchAndPIN, 0, false,
                "key in a YubiKey (firmware 5.4.3), opens with a touch and a PIN"
            ),
            (
                .simulated(.yubiKey(firmware: "5.7.1", serial: nil)),
                AssuranceLevel.EnforcedPresence.none, 0, false,
                "key in a simulated YubiKey (firmware 5.7.1), opens without user verification"
            ),
            (
                tpm, .pin, 0, false,
                "key in a TPM of IFX (SLB9672, firmware 00100013), opens with a PIN, whose strength is not known"
            ),
        ] as [(AttestationVerdict.Hardware, AssuranceLevel.EnforcedPresence?, Int, Bool, String)])
    func `a proof is stored completely and described in words`(
        hardware: AttestationVerdict.Hardware, presence: AssuranceLevel.EnforcedPresence?,
        reuse: Int,
        diesWithFingers: Bool, text: String
    ) throws {
        let verdict = try Self.verdict(
            hardware, presence, reuse: reuse, diesWithFingers: diesWithFingers)
        let record = AttestationRecord(verdict, for: .presence, at: AttestationRig.time)
        #expect(record.text == text)
        #expect(record.level == "presence" && record.presence == presence?.rawValue)
        #expect(record.isSimulated == verdict.isSimulated)
        #expect(record.approvalKeys == ["AAs", "AAw"] && record.certificateSerial == "AQI")
        #expect(record.time == AttestationRig.time.timeIntervalSince1970)
        #expect(
            try CanonicalJSON.decode(AttestationRecord.self, from: CanonicalJSON.text(record))
                == record)
    }

    @Test func `the article has the answer to each code`() throws {
        let article = try String(
            contentsOfFile: #filePath.replacing(
                /Tests\/Server\/.*/,
                with:
                    "Sources/Server/LatchkeyRelyingParty/LatchkeyRelyingParty.docc/RequiringAttestation.md"
            ), encoding: .utf8)
        for answer in ["attestation_refused", "invalid_grant"] {
            let row = try #require(
                article.split(separator: "\n").first { $0.hasPrefix("| 400 `\(answer)` |") })
            let column = try #require(row.split(separator: "|").last)
            let codes = AttestationReason.allCases.filter {
                AttestationError($0, "").oauthError.error == answer
            }
            #expect(
                Set(column.matches(of: /`([A-Za-z]+)`/).map { String($0.1) })
                    == Set(codes.map(\.rawValue)))
        }
    }

    @Test func `the client learns the reason only if an operator can help`() {
        for code in AttestationReason.allCases {
            let error = AttestationError(code, "detail").oauthError
            let isHelpful = [
                .unsupportedFormat, .untrustedEndorsement, .chainTooLong, .unsupportedCertificate,
                .wrongEndorsement, .certificateExpired,
                .untrustedAttestationKey, .wrongPolicy, .unknownApprovalKey, .insufficientPresence,
                .simulated,
            ].contains(code)
            #expect(error.status == 400)
            #expect(error.error == (isHelpful ? "attestation_refused" : "invalid_grant"))
            #expect(error.reason == (isHelpful ? code.rawValue : nil))
            #expect(!error.description.contains("detail"))
        }
    }

    @Test
    func
        `an approval key is known in its TPM only, while an attestation key's certificate is valid`()
        async throws
    {
        let database = try await TestDatabase.open(DatabaseApprovalKeyRegistry.migrations)
        let time = SettableClock(stoppedAt: AttestationRig.time)
        let registry = DatabaseApprovalKeyRegistry(database, clock: time.clock)
        func key() throws -> PublicKey {
            try PublicKey(
                x963Representation: P256.Signing.PrivateKey().publicKey.x963Representation)
        }
        let (broker, user, other, unknown) = (try key(), try key(), try key(), try key())
        let (here, there) = (Data(repeating: 1, count: 32), Data(repeating: 2, count: 32))
        let name = Data([0, 11]) + Data(repeating: 9, count: 32)
        for (key, endorsement) in [(broker, here), (user, here), (other, there)] {
            try await registry.record(
                key, in: endorsement, isSimulated: false, until: AttestationRig.time + 100)
        }
        #expect(try await !registry.isApprovalKey(name, inTPMOf: user))
        #expect(try await !registry.enrol(name, inTPMOf: unknown))
        #expect(try await registry.enrol(name, inTPMOf: broker))
        #expect(try await registry.enrol(name, inTPMOf: broker))
        #expect(try await registry.isApprovalKey(name, inTPMOf: user))
        #expect(try await !registry.isApprovalKey(name, inTPMOf: other))
        #expect(try await !registry.isApprovalKey(name, inTPMOf: unknown))
        #expect(try await !registry.isApprovalKey(Data(name.dropLast()) + [8], inTPMOf: user))

        time.advance(by: 100)
        #expect(try await !registry.isApprovalKey(name, inTPMOf: user))
        #expect(try await !registry.enrol(name, inTPMOf: user))
        // A new certificate of the same TPM is sufficient, and expired attestation keys are
        // deleted.
        let renewed = try key()
        try await registry.record(renewed, in: here, isSimulated: false, until: time.now + 100)
        #expect(try await registry.isApprovalKey(name, inTPMOf: renewed))
        let count = try await database.read {
            try $0.row("SELECT count(*) AS count FROM latchkey_attestation_key")?.integer("count")
        }
        #expect(count == 1)
        // A simulator's owner can activate any attestation key there, and the row of a TPM remains.
        try await registry.record(renewed, in: there, isSimulated: true, until: time.now + 100)
        #expect(try await registry.isApprovalKey(name, inTPMOf: renewed))
        try await registry.record(other, in: there, isSimulated: true, until: time.now + 100)
        try await registry.record(other, in: here, isSimulated: false, until: time.now + 100)
        #expect(
            try await registry.isApprovalKey(name, inTPMOf: other),
            "the control: a TPM's replaces a simulator's")
        #expect(try await registry.isEnrolled(name))
        #expect(try await registry.all().map(\.name) == [name])
        #expect(try await registry.remove(name))
        #expect(try await !registry.remove(name))
        #expect(try await !registry.isApprovalKey(name, inTPMOf: renewed))
    }
}
