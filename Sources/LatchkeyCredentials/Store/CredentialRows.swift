internal import FoundationEssentials
internal import Latchkey

/// How credentials are stored. Each has two records: what is known of it, in the clear and bound to the device, and the
/// token, under the protection that the app chose. So a credential can be found, tagged and removed while its token stays
/// shut. One more record names the default credential.
enum CredentialRows {
    static let kind: RecordKind = "credential"
    static let tokenKind: RecordKind = "credential.token"
    static let defaultKind: RecordKind = "credential.default"
    static let defaultID: RecordID = "credentials.default"

    private static let idPrefix = "credential.data."
    private static let tagPrefix = "tag:"
    private static let claimPrefix = "claim:"
    private static let issuer = "issuer"
    private static let client = "client"
    private static let security = "security"

    static func id(_ token: String) -> RecordID { RecordID(rawValue: idPrefix + token) }
    static func tokenID(_ token: String) -> RecordID { RecordID(rawValue: "credential.token.\(token)") }
    static func token(_ id: RecordID) -> String { String(id.rawValue.dropFirst(idPrefix.count)) }

    static func tag(_ name: String) -> String { tagPrefix + name }
    static func claim(_ name: String) -> String { claimPrefix + name }

    /// A claim's value as an attribute: JSON with sorted members, so that equal values give equal text.
    static func text(_ value: JSONValue) throws(KeystoreError) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return String(decoding: try encoder.encode(value), as: UTF8.self)
        } catch {
            throw .invalidInput("store the credential", "a claim can't be written as JSON")
        }
    }

    /// The class of tokens under a policy: all tokens of one policy are opened together.
    static func protection(_ security: AccessPolicy) -> ProtectionClass {
        guard security.requirement != .none else { return .device }
        let limit = security.attemptLimit.map { ".\($0)" } ?? ""
        return ProtectionClass(name: "credentials.\(security).\(security.reuseSeconds)\(limit)", policy: security)
    }

    // MARK: Writing

    static func put(
        _ token: Token, tags: [String: String], security: AccessPolicy,
        claims: CredentialStore.Configuration.ClaimSelection
    ) throws(KeystoreError) -> [RecordChange] {
        var attributes = [issuer: token.context.issuer, client: token.context.clientID]
        attributes[Self.security] = text(security)
        for (name, value) in token.claims where claims.contains(name) { attributes[claim(name)] = try text(value) }
        let data = Record(id: id(token.id), kind: kind, attributes: try tagged(attributes, tags))
        return [
            .put(data, payload: nil, ifGeneration: 0),
            try put(token, in: protection(security), ifGeneration: 0),
        ]
    }

    static func put(
        _ token: Token, in protection: ProtectionClass, ifGeneration generation: Int
    ) throws(KeystoreError) -> RecordChange {
        let record = Record(id: tokenID(token.id), kind: tokenKind, protection: protection)
        do {
            var bytes = try JSONEncoder().encode(token)
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return .put(record, payload: SecretBytes(bytes), ifGeneration: generation)
        } catch {
            throw .invalidInput("store the credential", "the token can't be written as JSON")
        }
    }

    static func put(default id: String, ifGeneration generation: Int) -> RecordChange {
        .put(Record(id: defaultID, kind: defaultKind, attributes: ["id": id]), payload: nil, ifGeneration: generation)
    }

    /// The attributes with these tags and no others.
    static func tagged(
        _ attributes: [String: String], _ tags: [String: String]
    ) throws(KeystoreError) -> [String: String] {
        var tagged = attributes.filter { !$0.key.hasPrefix(tagPrefix) }
        for (name, value) in tags {
            guard (1...128).contains(name.utf8.count), value.utf8.count <= 4096 else {
                throw .invalidInput("tag the credential", "the tag ‘\(name.prefix(128))’ is empty or too long")
            }
            tagged[tag(name)] = value
        }
        return tagged
    }

    // MARK: Reading

    static func metadata(_ record: Record) throws(KeystoreError) -> Token.Metadata {
        guard
            record.kind == kind, let issuer = record.attributes[issuer], let client = record.attributes[client],
            let policy = record.attributes[security].flatMap(policy)
        else { throw .damaged("read the credential", "its record is not one of a credential") }
        var tags: [String: String] = [:]
        var claims: [String: JSONValue] = [:]
        for (name, value) in record.attributes {
            if name.hasPrefix(tagPrefix) {
                tags[String(name.dropFirst(tagPrefix.count))] = value
            } else if name.hasPrefix(claimPrefix) {
                claims[String(name.dropFirst(claimPrefix.count))] = try claimValue(value)
            }
        }
        return Token.Metadata(
            id: token(record.id), tags: tags, claims: claims, context: .init(issuer: issuer, clientID: client),
            security: policy, createdAt: record.createdAt)
    }

    static func token(_ payload: SecretBytes?, id: String) throws(KeystoreError) -> Token {
        let operation = "read the credential"
        guard let payload else { throw .damaged(operation, "its token is missing") }
        let token: Token
        do {
            token = try payload.withUnsafeBytes { try JSONDecoder().decode(Token.self, from: Data($0)) }
        } catch {
            throw .damaged(operation, "its token can't be read")
        }
        guard token.id == id else { throw .damaged(operation, "its token is another's") }
        return token
    }

    private static func claimValue(_ text: String) throws(KeystoreError) -> JSONValue {
        do {
            return try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
        } catch {
            throw .damaged("read the credential", "one of its claims can't be read")
        }
    }

    private static func text(_ policy: AccessPolicy) -> String {
        let limit = policy.attemptLimit.map { " \($0)" } ?? ""
        return "\(policy.requirement.rawValue) \(policy.reuseSeconds)\(limit)"
    }

    private static func policy(_ text: String) -> AccessPolicy? {
        let parts = text.split(separator: " ")
        guard (2...3).contains(parts.count), let requirement = AccessPolicy.Requirement(rawValue: String(parts[0])),
            let reuse = Int(parts[1])
        else { return nil }
        return AccessPolicy(requirement, reuseSeconds: reuse, attemptLimit: parts.count == 3 ? Int(parts[2]) : nil)
    }
}
