import Latchkey

@testable import LatchkeyCredentials

// Errors compare by their code, so one value of each code is all that an expectation needs.
let cancelled = error(.cancelled)
let conflict = error(.conflict)
let damaged = error(.damaged)
let failed = error(.failed)
let invalidInput = error(.invalidInput)
let notFound = error(.notFound)
let refused = error(.refused)
let unavailable = error(.unavailable)
let unsupported = error(.unsupported)
let wrongProof = error(.wrongProof)
let wrongState = error(.wrongState)

private func error(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}

let invalidGrant = credentialError(.invalidGrant)
let invalidResponse = credentialError(.invalidResponse)
let invalidToken = credentialError(.invalidToken)
let missingToken = credentialError(.missingToken)
let noEndpoint = credentialError(.noEndpoint)
let oauthError = credentialError(.oauthError)
let unexpectedStatus = credentialError(.unexpectedStatus)

private func credentialError(_ code: CredentialError.Code) -> CredentialError {
    CredentialError(operation: "", code: code, reason: "", recovery: "")
}
