internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyTesting
internal import Testing

extension KeystoreContract {
    private static let issuer = "https://id.example.com"
    private static let form = AttestationRequest.Form.webAuthn(
        rpID: "id.example.com", origin: issuer)

    func attestsInForms(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let request = AttestationRequest(
            challenge: Data(repeating: 7, count: 32), issuer: "")
        guard keystore.isAttestable(key) else {
            await Self.expect(.unsupported, of: "attest") {
                _ = try await keystore.attest(key, for: request)
            }
            return
        }
        let attestation = try await keystore.attest(key, for: request)
        #expect(attestation.publicArea.firstRange(of: key.publicKey.x) != nil)
        for count in [7, 33] {
            await Self.expect(.invalidInput, of: "attest with a challenge of \(count) bytes") {
                _ = try await keystore.attest(
                    key, for: AttestationRequest(challenge: Data(count: count), issuer: Self.issuer)
                )
            }
        }
        guard attestation.format == KeyAttestation.tpm else {
            #expect(attestation.json != nil && attestation.presence == nil)
            return
        }
        #expect(attestation.statement.firstRange(of: request.challenge) != nil)
        #expect(attestation.json == nil, "the attestation key has no certificate")
        let stored = try JSONDecoder().decode(
            KeyAttestation.self, from: JSONEncoder().encode(attestation))
        #expect(stored == attestation)
        for form in [Self.form, .enrolment(rpID: "id.example.com", origin: Self.issuer), .acme] {
            await Self.expect(.wrongState, of: "attest before the activation") {
                _ = try await keystore.attest(
                    key,
                    for: AttestationRequest(
                        challenge: Data(repeating: 7, count: 32), issuer: Self.issuer, form: form))
            }
        }
        // For a key with its own PIN, the hardware requires the PIN.
        let certified = AttestationRequest(
            challenge: Data(repeating: 7, count: 64), issuer: "", form: .certify)
        let said = try await keystore.attest(key, for: certified, authorizedBy: person(.right))
        #expect(said.statement.firstRange(of: certified.challenge) != nil)
    }

    /// - Returns: nil for a wrapper of hardware without attestation keys.
    private static func identity(
        of keystore: any AttestingKeystore
    ) async throws -> AttestationIdentity? {
        do {
            return try await keystore.attestationIdentity(for: issuer)
        } catch {
            guard error.code == .unsupported else { throw error }
            return nil
        }
    }

    func keepsIssuersApart(_ keystore: any Keystore) async throws {
        let other = "https://other.example.com"
        guard let keystore = keystore as? any AttestingKeystore,
            let first = try await Self.identity(of: keystore)
        else { return }
        #expect(first.certificates.isEmpty && first.needsActivation())
        let again = try await keystore.attestationIdentity(for: Self.issuer)
        #expect(again == first)
        let elsewhere = try await keystore.attestationIdentity(for: other)
        #expect(elsewhere.attestationKey != first.attestationKey)
        let issuers = try await keystore.attestationIssuers()
        #expect(issuers == [Self.issuer, other])
        let foreign: [[Data]] = [[], [Data()], [Data(count: 64)]]
        for certificates in foreign {
            await Self.expect(.invalidInput, of: "keep a certificate of another key") {
                try await keystore.keepAttestationCertificates(certificates, for: Self.issuer)
            }
        }
        await Self.expect(.invalidInput, of: "use an issuer that is no URL") {
            _ = try await keystore.attestationIdentity(for: "an issuer")
        }
        try await keystore.forgetAttestation(for: Self.issuer)
        try await keystore.forgetAttestation(for: Self.issuer)
        let left = try await keystore.attestationIssuers()
        #expect(left == [other])
        let fresh = try await keystore.attestationIdentity(for: Self.issuer)
        #expect(fresh.attestationKey != first.attestationKey)
    }
}
