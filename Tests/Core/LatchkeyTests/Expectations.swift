import Latchkey

// Errors compare by their code, so one value of each code is sufficient.
let cancelled = error(.cancelled)
let conflict = error(.conflict)
let damaged = error(.damaged)
let invalidInput = error(.invalidInput)
let notFound = error(.notFound)
let refused = error(.refused)
let unavailable = error(.unavailable)
let wrongProof = error(.wrongProof)
let wrongState = error(.wrongState)

private func error(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}
