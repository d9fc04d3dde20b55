import Latchkey

// Errors compare by their code, so one value of each code is sufficient.
let cancelled = error(.cancelled)
let conflict = error(.conflict)
let damaged = error(.damaged)
let failed = error(.failed)
let invalidInput = error(.invalidInput)
let lockedOut = error(.lockedOut)
let unavailable = error(.unavailable)
let unsupported = error(.unsupported)
let wrongProof = error(.wrongProof)
let wrongState = error(.wrongState)

private func error(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(code: code, reason: "", recovery: "")
}
