internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// The encoding of metadata in a row's attributes: tags are unchanged, claims are JSON, so that the
/// text `1` and the number 1 differ. Each element of an array is also an attribute, with the
/// element in its name, so that the index finds it.
extension CredentialRows {
    /// The maximum length of a copied claim, in bytes of JSON. Longer claims are in the token only.
    private static let longestClaim = 64 * 1024
    /// The maximum number of elements of a copied array.
    private static let mostElements = 1000

    private enum Name {
        static let tag = "tag."
        static let claim = "claim."
        static let element = "element."
        static let server = "server"
        static let client = "client"
        static let issued = "issued"
        static let expires = "expires"
        static let refreshable = "refreshable"
        static let boundKey = "dpop"
        static let policy = "policy"
    }

    static func attribute(tag: String) -> String { Name.tag + tag }
    static func attribute(claim: String) -> String { Name.claim + claim }

    /// The attribute of a claim that is an array with this element. JSON text has no control
    /// character, so the last one separates the two.
    static func attribute(claim: String, element: JSONValue) -> String {
        "\(Name.element)\(claim)\u{1F}\(text(of: element))"
    }

    /// The canonical JSON of a claim's value.
    static func text(of value: JSONValue) -> String {
        // A number that JSON can't represent matches no claim.
        (try? CanonicalJSON.text(value)) ?? ""
    }

    /// The metadata row of a token.
    static func metadata(
        of token: Token, tags: [String: String], security: AccessPolicy,
        copying copied: CredentialConfiguration.CopiedClaims
    ) -> Record {
        var attributes: [String: String] = [
            Name.server: token.context.issuer, Name.client: token.context.clientID,
            Name.policy: security.requirement.rawValue, Name.issued: seconds(token.issuedAt),
        ]
        if let end = token.expiresAt { attributes[Name.expires] = seconds(end) }
        if token.refreshToken != nil { attributes[Name.refreshable] = "yes" }
        attributes[Name.boundKey] = token.context.boundKey
        for (name, value) in tags { attributes[attribute(tag: name)] = value }
        for (name, value) in token.claims where copied.includes(name) && isSearchable(value) {
            attributes[attribute(claim: name)] = text(of: value)
            for element in value.array ?? [] {
                attributes[attribute(claim: name, element: element)] = ""
            }
        }
        return Record(id: metadataID(token.id), kind: kind, attributes: attributes)
    }

    /// The thumbprint of the key to which a credential is bound, with its server and client.
    static func boundKey(of record: Record) -> (thumbprint: String, Token.Context)? {
        guard let thumbprint = record.attributes[Name.boundKey],
            let server = record.attributes[Name.server],
            let client = record.attributes[Name.client]
        else { return nil }
        return (thumbprint, Token.Context(issuer: server, clientID: client))
    }

    /// The credentials that are bound to a key.
    static func query(boundKey thumbprint: String) -> RecordQuery {
        .attribute(Name.boundKey, is: thumbprint)
    }

    private static func isSearchable(_ value: JSONValue) -> Bool {
        value.array?.count ?? 0 <= mostElements && text(of: value).utf8.count <= longestClaim
    }

    /// The names of the claims that are too long to be copied, sorted.
    static func unsearchableClaims(
        of token: Token, copying copied: CredentialConfiguration.CopiedClaims
    ) -> [String] {
        token.claims.filter { copied.includes($0.key) && !isSearchable($0.value) }.keys.sorted()
    }

    /// The same row with other tags.
    static func metadata(_ record: Record, taggedAs tags: [String: String]) -> Record {
        var attributes = record.attributes.filter { !$0.key.hasPrefix(Name.tag) }
        for (name, value) in tags { attributes[attribute(tag: name)] = value }
        return Record(
            id: record.id, kind: record.kind, protection: record.protection, attributes: attributes)
    }

    static func tags(of record: Record) -> [String: String] {
        members(of: record, Name.tag)
    }

    /// The metadata in a row.
    static func metadata(_ record: Record) throws(KeystoreError) -> Token.Metadata {
        guard
            let server = record.attributes[Name.server],
            let client = record.attributes[Name.client],
            let policy = record.attributes[Name.policy].flatMap(AccessPolicy.Requirement.init),
            let issued = record.attributes[Name.issued].flatMap(date)
        else {
            throw .damaged("the metadata of the credential ‘\(id(of: record.id))’ is incomplete")
        }
        let claims = members(of: record, Name.claim).compactMapValues { text in
            try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
        }
        return Token.Metadata(
            id: id(of: record.id), tags: tags(of: record), claims: claims, server: server,
            clientID: client,
            issuedAt: issued, expiresAt: record.attributes[Name.expires].flatMap(date),
            isRefreshable: record.attributes[Name.refreshable] != nil, security: policy,
            createdAt: record.createdAt)
    }

    private static func seconds(_ date: Date) -> String { String(Int(date.timeIntervalSince1970)) }

    private static func date(_ text: String) -> Date? {
        Int(text).map { Date(timeIntervalSince1970: TimeInterval($0)) }
    }

    private static func members(of record: Record, _ prefix: String) -> [String: String] {
        var members: [String: String] = [:]
        for (name, value) in record.attributes where name.hasPrefix(prefix) {
            members[String(name.dropFirst(prefix.count))] = value
        }
        return members
    }

    /// - Throws: ``CredentialError`` with code `invalidInput` for tags that can't be stored.
    static func check(tags: [String: String]) throws {
        guard tags.count <= 64 else {
            throw CredentialError.invalidInput("a credential can have at most 64 tags")
        }
        for (name, value) in tags {
            guard name.isName(maximumBytes: 64), value.isEmpty || value.isName(maximumBytes: 1024)
            else {
                throw CredentialError.invalidInput(
                    "the tag ‘\(name.prefix(64))’ is empty, too long, not in Unicode normalization form C, or has a control or invisible character"
                )
            }
        }
    }
}
