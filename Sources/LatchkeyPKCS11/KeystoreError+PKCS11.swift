internal import Latchkey

extension KeystoreError {
    /// What an error of the Cryptoki layer means for a person (`reference/pkcs11.md` section 7.4).
    init(_ error: CryptokiError, during operation: String, profile: ModuleProfile? = nil) {
        self.init(
            operation: operation, code: .failed, reason: error.description, recovery: "Run `latchkey doctor`.",
            underlying: Underlying(error))
    }
}

extension KeystoreError.Underlying {
    init(_ error: CryptokiError) {
        self.init(
            layer: "pkcs11", rawCode: error.returnValue.map { UInt32(truncatingIfNeeded: $0.rawValue) },
            text: error.description)
    }
}
