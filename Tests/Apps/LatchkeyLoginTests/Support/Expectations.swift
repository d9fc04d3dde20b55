import Latchkey
import LatchkeyLogin

// Errors compare by their code, so one value of each code is all that an expectation needs.
func login(_ code: LoginError.Code) -> LoginError {
    LoginError(operation: "", code: code, reason: "", recovery: "")
}

func keystore(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}

let noNetwork = KeystoreError(
    operation: "reach the server", code: .unavailable, reason: "the cable is out",
    recovery: "Put it in.")
