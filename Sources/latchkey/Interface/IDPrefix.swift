/// The beginning of an id, which may stand for the whole of it.
struct IDPrefix {
    /// What is shorter begins no id.
    private static let fewestCharacters = 4

    private let text: String

    /// - Returns: nil for text that is too short.
    init?(_ text: String) {
        guard text.utf8.count >= Self.fewestCharacters else { return nil }
        self.text = text.lowercased()
    }

    /// Whether the id begins so, in capitals or not.
    func begins(_ id: String) -> Bool { id.lowercased().hasPrefix(text) }
}
