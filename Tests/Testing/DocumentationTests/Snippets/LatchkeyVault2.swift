/// The secret of an app whose first version stored a plain text.
struct AppSecret: Codable, Sendable {
    var text: String
    var note: String?

    private enum CodingKeys: CodingKey {
        case text, note
    }

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            (self.text, note) = (text, nil)
        } else {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            text = try members.decode(String.self, forKey: .text)
            note = try members.decodeIfPresent(String.self, forKey: .note)
        }
    }
}
