/// The first 10 bytes of every response (TPM 2.0 Part 1 section "Response header").
struct ResponseHeader {
    static let bytes = 10

    let hasSessions: Bool
    let code: ResponseCode

    /// - Throws: ``TPMError`` of kind `malformed`, also when the size in the header is not the response's.
    init(of response: [UInt8]) throws(TPMError) {
        var reader = TPMReader(response)
        let tag = try reader.read(UInt16.self)
        let size = Int(try reader.read(UInt32.self))
        code = ResponseCode(rawValue: try reader.read())
        guard size == response.count else {
            throw .malformed("a response of \(response.count) bytes says that it has \(size)")
        }
        switch tag {
        case MessageTag.sessions: hasSessions = true
        case MessageTag.noSessions: hasSessions = false
        // TPM_ST_RSP_COMMAND, what a TPM 1.2 answers, or a TPM 2.0 that can't read the tag of the command.
        case 0x00c4: hasSessions = false
        default: throw .malformed("a response has the unknown tag 0x\(String(tag, radix: 16))")
        }
    }
}
