public import FoundationEssentials
internal import Latchkey

extension Token {
    /// A token from a token endpoint's answer.
    ///
    /// - Parameters:
    ///   - response: The JSON object as the server sent it (RFC 6749 section 5.1).
    ///   - context: Where it is from. Without it, the ID token's `iss` and its one `aud` say so.
    ///   - id: The token's name; a new UUID unless given.
    ///   - receivedAt: When the answer came.
    /// - Throws: ``CredentialError`` with code `invalidInput` when the answer is not one, or nothing says where it is
    ///   from.
    public init(
        response: Data, context: Context? = nil, id: String = Token.newID(), receivedAt: Date = Date()
    ) throws(CredentialError) {
        guard let members = try? JSONDecoder().decode([String: JSONValue].self, from: response) else {
            throw .unreadable("read a token", "it is not a JSON object")
        }
        try self.init(members: members, context: context, id: id, receivedAt: receivedAt)
    }

    /// A new id: a random UUID (RFC 9562) in lower case.
    public static func newID() -> String { UUID().uuidString.lowercased() }

    init(
        members: [String: JSONValue], context: Context?, id: String, receivedAt: Date
    ) throws(CredentialError) {
        let operation = "read a token"
        guard Self.isID(id) else { throw .unreadable(operation, "its id is empty, too long, or not visible ASCII") }
        // A JSON null is what a member that is left out is.
        var members = members.filter { $0.value != .null }
        // Some servers write the number as a text.
        if let text = members[Member.expiresIn]?.string, let number = Double(text) {
            members[Member.expiresIn] = .number(number)
        }
        try Self.check(members, operation)
        let idToken = members[Member.idToken]?.string.flatMap(JWT.init)
        guard members[Member.idToken] == nil || idToken != nil else {
            throw .unreadable(operation, "its ID token is not a JWT")
        }
        guard let context = context ?? idToken?.context else {
            throw CredentialError(
                operation: operation, code: .invalidInput, reason: "nothing says which server and client it is for",
                recovery: "Name the server's address and the client id.")
        }
        guard Endpoint(context.issuer) != nil, !context.clientID.isEmpty else {
            throw .unreadable(
                operation, "‘\(context.issuer)’ is neither https nor on this machine, or no client is named")
        }
        self.init(id: id, issuedAt: receivedAt.wholeMilliseconds, context: context, idToken: idToken, checked: members)
    }

    /// Whether a text can name a token.
    static func isID(_ text: String) -> Bool {
        (1...96).contains(text.utf8.count) && text.isVisibleASCII
    }

    private static func check(_ members: [String: JSONValue], _ operation: String) throws(CredentialError) {
        // A token goes into a header: nothing but visible ASCII may (RFC 6750 section 2.1).
        guard let access = members[Member.accessToken]?.string, !access.isEmpty, access.isVisibleASCII else {
            throw .unreadable(operation, "it has no access token, or none that fits into a header")
        }
        guard let type = members[Member.tokenType]?.string, !type.isEmpty, type.isVisibleASCII else {
            throw .unreadable(operation, "it does not say of which type it is")
        }
        for name in [Member.refreshToken, Member.deviceSecret, Member.scope, Member.idToken, Member.issuedTokenType] {
            guard let value = members[name] else { continue }
            guard let text = value.string, !text.isEmpty else {
                throw .unreadable(operation, "its ‘\(name)’ is not a text")
            }
        }
        guard let life = members[Member.expiresIn] else { return }
        guard let seconds = life.number, (0...longestLife).contains(seconds) else {
            throw .unreadable(operation, "its life is not between nothing and a hundred years")
        }
    }

    private static let longestLife: TimeInterval = 100 * 365 * 86_400
}

extension JWT {
    /// Where the token is from, if it names one client only.
    fileprivate var context: Token.Context? {
        guard let issuer, let client = self["azp"]?.string ?? (audience.count == 1 ? audience.first : nil) else {
            return nil
        }
        return Token.Context(issuer: issuer, clientID: client)
    }
}

extension String {
    var isVisibleASCII: Bool { utf8.allSatisfy { (0x21...0x7E).contains($0) } }
}

extension Date {
    /// Without what a JSON number may lose.
    var wholeMilliseconds: Date {
        Date(timeIntervalSince1970: (timeIntervalSince1970 * 1000).rounded(.down) / 1000)
    }
}
