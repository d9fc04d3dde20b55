import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

extension PresenceService {
    /// Lets the TPM state for the administrator that the approval key is in it.
    func certifyKey(_ requester: BusRequester, _ arguments: [BusValue]) async throws(KeystoreError)
        -> CertifiedApprovalKey
    {
        guard requester.user == 0 else {
            throw KeystoreError(
                code: .refused, reason: "only the administrator can enrol the presence broker",
                recovery: "Run ‘sudo latchkey broker enrol’.")
        }
        guard let (attestationKey, challenge) = PresenceWire.certification(arguments) else {
            throw .invalidInput("the attestation key or the challenge cannot be read")
        }
        let certified = try await authority.certifyKey(by: attestationKey, challenge: challenge)
        log.notice("the approval key was certified for the administrator")
        return certified
    }
}
