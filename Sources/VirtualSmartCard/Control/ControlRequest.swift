/// What a line to the control socket asks for.
enum ControlRequest: Hashable {
    /// `touch auto|deny|wait`
    case touch(TouchMode)
    /// `press`
    case press
    /// `eject`
    case eject
    /// `insert`
    case insert
    /// `fail SLOT STATUS`, both hexadecimal: `fail 9a 6f00`
    case fail(KeySlot, StatusWord)
    /// `status`
    case status

    /// - Returns: nil for a line that is none of the requests.
    init?(_ line: String) {
        let words = line.split(separator: " ").map(String.init)
        switch (words.first, words.count) {
        case ("touch", 2):
            guard let mode = TouchMode(rawValue: words[1]) else { return nil }
            self = .touch(mode)
        case ("press", 1): self = .press
        case ("eject", 1): self = .eject
        case ("insert", 1): self = .insert
        case ("fail", 3):
            guard
                let slot = UInt8(words[1], radix: 16).flatMap(KeySlot.init(rawValue:)),
                let status = UInt16(words[2], radix: 16)
            else { return nil }
            self = .fail(slot, StatusWord(rawValue: status))
        case ("status", 1): self = .status
        default: return nil
        }
    }

    /// What there is to ask for.
    static let usage = "touch auto|deny|wait, press, eject, insert, fail SLOT STATUS, status"
}
