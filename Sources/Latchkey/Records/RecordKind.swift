/// What a record is, for example `key` or `login.session`.
public struct RecordKind: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }

    public var description: String { rawValue }

    /// A key that belongs to no facade.
    public static let key: RecordKind = "key"
}
