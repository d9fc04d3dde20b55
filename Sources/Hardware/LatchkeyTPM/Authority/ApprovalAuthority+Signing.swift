internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// What the broker signs: an approval of one command with one key, in one session of the TPM.
extension ApprovalAuthority {
    func sign(_ approvals: [Approval]) async throws(KeystoreError) -> [ECDSASignature] {
        let signatures = try await work { (tpm, store) in
            try tpm.withAuthority(store) { (authority) throws(TPMError) in
                var signatures: [TPMSignature] = []
                for approval in approvals { signatures.append(try authority.sign(approval)) }
                return signatures
            }
        }
        let checked = signatures.compactMap { ECDSASignature($0) }
        guard checked.count == approvals.count else { throw Self.noSignature }
        return checked
    }

    static var noSignature: KeystoreError {
        KeystoreError(
            TPMError(.forged, command: .sign, reason: "the approval is not an ECDSA signature"))
    }

    /// The cpHash. The broker computes it and does not accept one from a client.
    ///
    /// It contains the command and the Name of each handle in its place, so an approval is for one
    /// role of the key: each of these commands has the key as its only handle.
    static func commandHash(of use: ApprovalRequest.Use, _ keyName: Data) -> [UInt8] {
        let name = TPMName(bytes: Array(keyName))
        return switch use {
        case .sign(let digest): Sign(digest.bytes, with: NamedHandle(named: name)).hash
        case .signNamingScheme(let digest):
            Sign(digest.bytes, with: NamedHandle(named: name), scheme: .ecdsaSHA256).hash
        case .unseal: Unseal(NamedHandle(named: name)).hash
        case .mac(let message): Hmac(of: Array(message), with: NamedHandle(named: name)).hash
        }
    }
}
