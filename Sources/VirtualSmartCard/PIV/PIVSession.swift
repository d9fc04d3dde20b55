/// What a card forgets when it loses power.
struct PIVSession {
    /// The application that commands go to.
    enum Application {
        case none
        case piv
        case oneTimePassword
    }

    var application = Application.none
    var isPINVerified = false
    /// The PIN was verified by the command right before this one.
    var isPINFresh = false
    var isAdministrator = false
    /// What an answer to the card's challenge is held against.
    var challenge: [UInt8]?
    /// The pieces of a chained command so far, and its instruction.
    var chain: (instruction: UInt8, data: [UInt8])?
    /// What GET RESPONSE brings.
    var remainder: ArraySlice<UInt8> = []
    /// What waits for a touch.
    var pending: (operation: PrivateKeyOperation, responseLimit: Int)?
}
