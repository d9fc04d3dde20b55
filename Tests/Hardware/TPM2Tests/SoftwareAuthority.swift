import Crypto
import TPM2

/// Signs approvals with a key in software.
struct SoftwareAuthority {
    private let key = P256.Signing.PrivateKey()

    var publicArea: PublicArea {
        let raw = Array(key.publicKey.rawRepresentation)
        return PublicArea(
            attributes: [.userWithAuth, .sign],
            detail: .ecc(
                ECCParameters(scheme: .ecdsaSHA256),
                ECCPoint(x: Array(raw.prefix(32)), y: Array(raw.suffix(32)))))
    }

    func sign(_ approval: Approval) -> TPMSignature {
        var message: [UInt8] = approval.nonceTPM
        message += withUnsafeBytes(of: approval.expiration.bigEndian) { Array($0) }
        message += approval.commandHash + approval.policyRef
        guard let raw = try? key.signature(for: message).rawRepresentation else {
            return .ecdsa(hash: .sha256, r: [], s: [])
        }
        return .ecdsa(hash: .sha256, r: Array(raw.prefix(32)), s: Array(raw.suffix(32)))
    }
}
