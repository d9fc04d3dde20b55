internal import FoundationEssentials
internal import Latchkey

/// The server's shares of the keys that protect `background` and `active`: 32 bytes each.
struct LevelShares: Decodable, Sendable {
    static let byteCount = 32

    let background: SecretBytes?
    let active: SecretBytes?

    private enum CodingKeys: String, CodingKey {
        case background, active
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        func share(_ key: CodingKeys) throws -> SecretBytes? {
            guard let text = try container.decodeIfPresent(String.self, forKey: key) else { return nil }
            guard var bytes = Base64URL.decode(text), bytes.count == Self.byteCount else {
                throw DecodingError.dataCorruptedError(forKey: key, in: container, debugDescription: "not a share")
            }
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return SecretBytes(bytes)
        }
        background = try share(.background)
        active = try share(.active)
    }
}

/// The server's answer to an enrolment.
struct LockerEnrolmentAnswer: Decodable, Sendable {
    let enrolmentID: String
    /// nil if the server does not store level shares.
    let levelShares: LevelShares?

    private enum CodingKeys: String, CodingKey {
        case enrolmentID = "enrolment_id"
        case levelShares = "level_shares"
    }
}
