/// What a command asks for: SP 800-73-4 Part 2 section 3, and Yubico's additions (the last block).
enum Instruction: UInt8 {
    case verify = 0x20
    case changeReferenceData = 0x24
    case resetRetryCounter = 0x2C
    case generateKeyPair = 0x47
    case generalAuthenticate = 0x87
    case select = 0xA4
    case getResponse = 0xC0
    case getData = 0xCB
    case putData = 0xDB

    /// The serial number, asked of the one-time-password application.
    case oneTimePasswordRequest = 0x01
    case moveKey = 0xF6
    case getMetadata = 0xF7
    case getSerialNumber = 0xF8
    case attest = 0xF9
    case setRetries = 0xFA
    case reset = 0xFB
    case getVersion = 0xFD
    case importKey = 0xFE
    case setManagementKey = 0xFF
}
