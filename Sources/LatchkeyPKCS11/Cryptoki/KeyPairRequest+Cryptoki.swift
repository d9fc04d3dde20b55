internal import CPKCS11

extension KeyPairRequest.Use {
    /// What makes such a key.
    var mechanism: Mechanism { self == .decrypt ? .rsaKeyPairGeneration : .ecKeyPairGeneration }

    /// The kind of key, in words.
    var kind: String { self == .decrypt ? "RSA" : "P-256" }

    /// `CKA_KEY_TYPE`.
    var keyType: UInt { self == .decrypt ? UInt(CKK_RSA) : UInt(CKK_EC) }

    /// What the public half may do on the token; nil where that is left to the token. The host encrypts by itself, and
    /// tpm2-pkcs11 1.9.0 takes `CKA_ENCRYPT` for the wish that the private half signs.
    var publicPermission: UInt? {
        switch self {
        case .sign: CKA_VERIFY
        case .derive: CKA_DERIVE
        case .decrypt: nil
        }
    }

    /// What the private half may do.
    var permission: UInt {
        switch self {
        case .sign: CKA_SIGN
        case .derive: CKA_DERIVE
        case .decrypt: CKA_DECRYPT
        }
    }

    /// What the private half must not do, though keys of its type can.
    var prohibition: UInt { self == .sign ? CKA_DERIVE : CKA_SIGN }
}
