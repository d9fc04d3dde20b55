internal import CPKCS11

extension KeyPairRequest.Use {
    /// What makes such a key.
    var mechanism: Mechanism { self == .signRSA ? .rsaKeyPairGeneration : .ecKeyPairGeneration }

    /// The kind of key, in words.
    var kind: String { self == .signRSA ? "RSA" : "P-256" }

    /// `CKA_KEY_TYPE`.
    var keyType: UInt { self == .signRSA ? UInt(CKK_RSA) : UInt(CKK_EC) }

    /// What the public half may do on the token.
    var publicPermission: UInt { self == .derive ? CKA_DERIVE : CKA_VERIFY }

    /// What the private half may do.
    var permission: UInt { self == .derive ? CKA_DERIVE : CKA_SIGN }

    /// What the private half must not do, though keys of its type can. That an RSA key must not decrypt is not said:
    /// tpm2-pkcs11 1.9.0 then makes none, and it takes a login as signing does.
    var prohibition: UInt { self == .derive ? CKA_SIGN : CKA_DERIVE }
}
