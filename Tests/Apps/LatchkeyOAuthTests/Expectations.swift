import Latchkey

// Errors compare by their code, so one value of each code is all that an expectation needs.
func keystore(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}
