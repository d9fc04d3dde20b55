import FoundationEssentials

/// What is printed when the card is ready.
struct ReadyLine: Encodable {
    let control: String?
    let firmware: String
    let port: UInt16
    let serial: UInt32

    /// The JSON with the end of the line.
    var text: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
        }
    }
}
