/// The status of an answer (CTAP 2.0 section "Status codes").
package enum CTAPStatus: UInt8, Error, Sendable {
    case ok = 0x00
    case invalidCommand = 0x01
    case invalidParameter = 0x02
    case invalidLength = 0x03
    case channelBusy = 0x06
    case unexpectedType = 0x11
    case invalidCBOR = 0x12
    case missingParameter = 0x14
    case credentialExcluded = 0x19
    case unsupportedAlgorithm = 0x26
    case operationDenied = 0x27
    case keyStoreFull = 0x28
    case unsupportedOption = 0x2B
    case invalidOption = 0x2C
    case keepaliveCancel = 0x2D
    case noCredentials = 0x2E
    case userActionTimeout = 0x2F
    case notAllowed = 0x30
    case pinAuthInvalid = 0x33
    case pinNotSet = 0x35
    case verificationBlocked = 0x3C
    case invalidSubcommand = 0x3E
    case verificationInvalid = 0x3F
    case other = 0x7F
}

/// The commands of CTAP 2 that are recognized.
enum CTAPCommand: UInt8 {
    case makeCredential = 0x01
    case getAssertion = 0x02
    case getInfo = 0x04
    case clientPIN = 0x06
    case reset = 0x07
    case getNextAssertion = 0x08
    case selection = 0x0B

    /// Whether a map of parameters follows.
    var hasParameters: Bool {
        switch self {
        case .makeCredential, .getAssertion, .clientPIN: true
        case .getInfo, .reset, .getNextAssertion, .selection: false
        }
    }
}
