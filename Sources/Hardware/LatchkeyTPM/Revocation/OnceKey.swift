internal import Crypto
internal import FoundationEssentials
internal import TPM2

/// A software key that authorizes the only write of an index. It exists in memory only, and is
/// erased with the last copy, so that nobody can write the index again.
struct OnceKey: Sendable {
    /// The policyRef of the write.
    static let reference = Array("latchkey/once".utf8)

    private let key = P256.Signing.PrivateKey()

    /// The public area under which a TPM loads the public half.
    var publicArea: PublicArea {
        let point = Array(key.publicKey.rawRepresentation)
        return PublicArea(
            attributes: [.sign, .userWithAuth],
            detail: .ecc(
                ECCParameters(scheme: .ecdsaSHA256),
                ECCPoint(x: Array(point.prefix(32)), y: Array(point.suffix(32)))))
    }

    /// The branch of the index's policy that this key satisfies.
    var branch: PolicyDigest {
        get throws(TPMError) {
            PolicyDigest().signed(by: try publicArea.name, policyRef: Self.reference)
        }
    }

    func sign(_ approval: Approval) throws(TPMError) -> TPMSignature {
        do {
            let raw = Array(try key.signature(for: approval.message).rawRepresentation)
            return .ecdsa(hash: .sha256, r: Array(raw.prefix(32)), s: Array(raw.suffix(32)))
        } catch {
            throw TPMError(.unsupported, reason: "the write of an index cannot be signed: \(error)")
        }
    }
}
