internal import CPKCS11

/// An RSA key pair on a token, as it is known within one session.
struct RSATokenKey: PrivateHalf, Sendable {
    let publicKey: RSAPublicKey
    let attributes: TokenKey.Attributes
    let handle: ObjectHandle

    var secrets: [UInt] { [CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2] }
}
