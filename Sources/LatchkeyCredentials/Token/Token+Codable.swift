internal import FoundationEssentials
internal import Latchkey

/// A token is written with everything that it needs later: `version`, `id`, `issuedAt` (seconds since 1970), `context`
/// and `response`, which is the server's answer. It is read from that, and from the server's answer alone: then it gets
/// a new id, was issued now, and is for whom its ID token says. To name that yourself, use
/// ``init(response:context:id:receivedAt:)``.
extension Token: Codable {
    /// The version of what is written.
    static let formatVersion = 1

    /// The last second of the year 9999: beyond it, and as long before 1970, no time means anything.
    private static let lastTime: TimeInterval = 253_402_300_799

    private enum CodingKeys: String, CodingKey {
        case version, id, issuedAt, context, response
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard container.contains(.response) else {
            let members = try [String: JSONValue](from: decoder)
            try self.init(members: members, context: nil, id: Self.newID(), receivedAt: Date())
            return
        }
        guard try container.decode(Int.self, forKey: .version) == Self.formatVersion else {
            throw DecodingError.dataCorruptedError(
                forKey: .version, in: container, debugDescription: "a token of another version of Latchkey")
        }
        let issuedAt = try container.decode(TimeInterval.self, forKey: .issuedAt)
        guard abs(issuedAt) <= Self.lastTime else {
            throw DecodingError.dataCorruptedError(forKey: .issuedAt, in: container, debugDescription: "not a time")
        }
        try self.init(
            members: container.decode([String: JSONValue].self, forKey: .response),
            context: container.decode(Context.self, forKey: .context),
            id: container.decode(String.self, forKey: .id),
            receivedAt: Date(timeIntervalSince1970: issuedAt))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.formatVersion, forKey: .version)
        try container.encode(id, forKey: .id)
        try container.encode(issuedAt.timeIntervalSince1970, forKey: .issuedAt)
        try container.encode(context, forKey: .context)
        try container.encode(response, forKey: .response)
    }
}
