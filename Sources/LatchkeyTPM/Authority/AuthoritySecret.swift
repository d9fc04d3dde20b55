internal import FoundationEssentials
internal import Latchkey

/// The approval key's authValue: with it, and this TPM, one can approve anything.
///
/// It has a file of its own, which goes straight into locked memory: a decoder would leave copies.
struct AuthoritySecret: Sendable {
    private static let count = 32

    let bytes: SecretBytes

    /// - Parameter isNew: Whether there is no key yet that has it, so that it is to be made.
    /// - Throws: ``KeystoreError`` with code `damaged` when there is a key and not what opens it.
    init(directory: String, isNew: Bool) throws(KeystoreError) {
        let path = "\(directory)/authority.secret"
        guard isNew else {
            guard let kept = try PrivateFile.read(path), kept.count == Self.count else {
                throw .damaged("start the presence broker", "\(path) is not what it was")
            }
            bytes = kept
            return
        }
        bytes = .random(count: Self.count)
        try PrivateFile.replace(path, by: bytes)
    }
}
