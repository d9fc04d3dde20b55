/// One line being typed at a terminal that neither echoes nor edits: what each byte means.
struct TerminalLine: ~Copyable {
    enum Action: Equatable {
        case wait
        case finished
        /// Ctrl-C, Ctrl-\, or Ctrl-D on an empty line.
        case declined
        /// Ctrl-Z.
        case suspend
    }

    private(set) var text = SecretBuffer()

    mutating func receive(_ byte: UInt8) -> Action {
        switch byte {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): return .finished
        case Control.c, Control.backslash: return .declined
        case Control.d: return text.count == 0 ? .declined : .wait
        case Control.z: return .suspend
        case Control.u: text.clear()
        case Control.h, Control.delete: text.removeLastCharacter()
        default: text.append(byte)
        }
        return .wait
    }

    mutating func clear() { text.clear() }

    /// The terminal's editing and signal characters at their usual places.
    private enum Control {
        static let c: UInt8 = 0x03
        static let d: UInt8 = 0x04
        static let h: UInt8 = 0x08
        static let u: UInt8 = 0x15
        static let z: UInt8 = 0x1A
        static let backslash: UInt8 = 0x1C
        static let delete: UInt8 = 0x7F
    }
}
