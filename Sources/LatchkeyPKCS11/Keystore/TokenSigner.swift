public import Latchkey

/// A key on a token, in the session that ``PKCS11Keystore/withSigner(of:for:authorizedBy:_:)`` keeps open for it. To be
/// used within that call only, on the thread on which it was lent.
public final class TokenSigner {
    private let session: Session
    private let key: TokenKey
    private let profile: ModuleProfile
    private var isProven = false

    init(_ session: Session, _ key: TokenKey, _ profile: ModuleProfile) {
        self.session = session
        self.key = key
        self.profile = profile
    }

    /// The public half.
    public var publicKey: PublicKey { key.publicKey }

    /// Signs a digest: ECDSA over P-256.
    ///
    /// The first signature is verified with the public half, which shows that the session holds the right key; those
    /// after it come from the same handle in the same session and are returned as the token made them.
    ///
    /// - Throws: `KeystoreError`; `unavailable` when the token was lost, `failed` when the first signature is not the
    ///   key's.
    public func sign(_ digest: MessageDigest) throws(KeystoreError) -> ECDSASignature {
        let signature: ECDSASignature
        do {
            signature = try session.sign(digest, with: key)
        } catch {
            throw KeystoreError(error, during: "sign", profile: profile)
        }
        if !isProven {
            guard key.publicKey.isValid(signature, for: digest) else { throw .foreignSignature("sign") }
            isProven = true
        }
        return signature
    }
}
