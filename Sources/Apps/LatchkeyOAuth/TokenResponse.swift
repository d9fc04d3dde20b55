package import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// A token endpoint's response (RFC 6749 section 5.1): the only reader for all facades.
///
/// Reading never fails, because the response may have replaced the refresh token: most servers
/// accept a refresh token once. Store ``refreshToken`` first, then call ``checked()``.
package struct TokenResponse: Sendable {
    /// The lifetime in seconds that is assumed for an access token whose response states none. A
    /// short one costs a refresh; with a long one, servers would refuse the token.
    package static let assumedLifetime: TimeInterval = 300
    private static let longestLife: TimeInterval = 100 * 365 * 86_400

    /// The members of the response, without those that state nothing and those of ``skipped``.
    /// `expires_in` is a number.
    package let members: [String: JSONValue]
    /// The optional members that cannot be used, each with the reason as a clause.
    package let skipped: [Name: String]
    /// Why the access token cannot be used.
    private let flaw: TokenResponseFlaw?

    /// The members that Latchkey uses.
    package enum Name: String, CaseIterable, Sendable {
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
        case idToken = "id_token"
        case scope
        case deviceSecret = "device_secret"
        case issuedTokenType = "issued_token_type"
    }

    /// Reads the body of a response. A body that is refused as a whole keeps its refresh token, if
    /// it can be found.
    package init(_ body: Data) {
        do {
            let members = try ReceivedJSON.decode([String: JSONValue].self, from: body)
            if let error = members["error"], !error.isEmpty {
                self.init(salvaging: TokenResponse(members: members), .error(error.string))
            } else {
                self.init(members: members)
            }
        } catch {
            // Repeated members, or UTF-16. A wrong one of two refresh tokens is no worse than the
            // old one, which is used up.
            let all =
                (try? JSONDecoder().decode([String: JSONValue].self, from: body))
                ?? TokenText.refreshToken(in: body).map {
                    [Name.refreshToken.rawValue: .string($0)]
                }
            let flaw: TokenResponseFlaw =
                switch error {
                case ReceivedJSON.Flaw.repeatedName(let name): .repeatedMember(name)
                case DecodingError.typeMismatch(_, let context) where !context.codingPath.isEmpty,
                    DecodingError.dataCorrupted(let context) where !context.codingPath.isEmpty:
                    .unreadable(ReceivedJSON.reason(of: error))
                default: .notAnObject
                }
            self.init(salvaging: TokenResponse(members: all ?? [:]), flaw)
        }
    }

    /// A response that is refused as a whole, with the refresh token of its members.
    private init(salvaging response: TokenResponse, _ flaw: TokenResponseFlaw) {
        let token = response[.refreshToken]
        members = token.map { [Name.refreshToken.rawValue: .string($0)] } ?? [:]
        skipped = [:]
        self.flaw = flaw
    }

    /// Reads the members of a response.
    package init(members received: [String: JSONValue]) {
        var (members, skipped) = (received.filter { $0.value != .null }, [Name: String]())
        for name in Name.allCases {
            guard let value = members[name.rawValue] else { continue }
            switch name {
            case .accessToken, .tokenType: break
            case .expiresIn:
                members[name.rawValue] = value.decimal.flatMap {
                    (0...Self.longestLife).contains($0) ? .number($0) : nil
                }
                if members[name.rawValue] == nil {
                    skipped[name] = "is not a number of seconds between 0 and 100 years"
                }
            case .scope where value.scopeList != nil:
                members[name.rawValue] = value.scopeList
            case .refreshToken, .idToken, .scope, .deviceSecret, .issuedTokenType:
                // Some servers send an empty text for an absent one.
                guard let text = value.string, !text.isEmpty else {
                    members[name.rawValue] = nil
                    if value.string == nil { skipped[name] = "is not a string" }
                    continue
                }
            }
        }
        (self.members, self.skipped) = (members, skipped)
        flaw = Self.flaw(of: members)
    }

    private static func flaw(of members: [String: JSONValue]) -> TokenResponseFlaw? {
        for name in [Name.accessToken, .tokenType] {
            guard let value = members[name.rawValue] else { return .missing(name) }
            // A header field may only contain visible ASCII characters (RFC 6750 section 2.1).
            guard let text = value.string, !text.isEmpty, text.isVisibleASCII else {
                return .unusable(name)
            }
        }
        return nil
    }

    /// Whether the response has an error, with any other members. Its tokens are not used.
    package var hasError: Bool {
        if case .error = flaw { true } else { false }
    }

    /// This response to a refresh, with the members that it lacks. The old access token and its
    /// lifetime are not kept.
    package func merged(into old: [String: JSONValue]) -> TokenResponse {
        switch flaw {
        case .notAnObject, .unreadable, .repeatedMember, .error: return self
        case .missing, .unusable, .type, nil: break
        }
        var members = old
        for name in [Name.accessToken, .expiresIn] { members[name.rawValue] = nil }
        return TokenResponse(members: members.merging(self.members) { $1 })
    }

    /// The text of a member; nil if it is absent or cannot be used.
    package subscript(name: Name) -> String? { members[name.rawValue]?.string }

    /// The refresh token, if the response has one. It is valid even if ``checked()`` throws.
    package var refreshToken: SecretBytes? {
        self[.refreshToken].map { SecretBytes($0.utf8) }
    }
    /// The ID token, not verified.
    package var idToken: String? { self[.idToken] }
    /// The access token: visible ASCII characters. Empty unless ``checked()`` succeeds.
    package var accessToken: String { flaw == nil ? self[.accessToken] ?? "" : "" }
    /// The lifetime of the access token in seconds, if stated.
    package var expiresIn: TimeInterval? { members[Name.expiresIn.rawValue]?.number }
    /// The lifetime of the access token in seconds, as stated or assumed.
    package var lifetime: TimeInterval { expiresIn ?? Self.assumedLifetime }

    /// Checks that the response has an access token.
    ///
    /// - Parameter requiresKnownType: Whether the access token must be a bearer token (RFC 6750) or
    ///   bound to a key (RFC 9449).
    package func checked(requiresKnownType: Bool = true) throws(TokenResponseFlaw) -> Self {
        if let flaw { throw flaw }
        if requiresKnownType { _ = try authorization }
        return self
    }

    /// Whether the access token is bound to a key (RFC 9449 section 5).
    package var isBound: Bool { self[.tokenType]?.lowercased() == "dpop" }

    /// The value of the field `Authorization` for a request with the access token (RFC 6750 section
    /// 2.1, RFC 9449 section 7.1).
    package var authorization: String {
        get throws(TokenResponseFlaw) {
            let type = self[.tokenType] ?? ""
            switch type.lowercased() {
            case "bearer": return "Bearer \(accessToken)"
            case "dpop": return "DPoP \(accessToken)"
            default: throw .type(type)
            }
        }
    }

    /// The text of a member that the facade requires.
    package func required(_ name: Name) throws(TokenResponseFlaw) -> String {
        if let text = self[name] { return text }
        throw skipped[name] == nil ? .missing(name) : .unusable(name)
    }

    /// The skipped members with their reasons, for a log.
    package var notes: [String] {
        skipped.sorted { $0.key.rawValue < $1.key.rawValue }.map {
            "token response: ‘\($0.key.rawValue)’ is skipped, because it \($0.value)"
        }
    }
}

/// Why a token response has no access token that can be used.
package enum TokenResponseFlaw: Error, Hashable, Sendable {
    case notAnObject
    /// A value cannot be read, for example a number out of bounds; the cause as a clause.
    case unreadable(String)
    /// Two members have this name. Other programs may read the other one (RFC 8259 section 4).
    case repeatedMember(String)
    /// The response has an error (RFC 6749 section 5.2); nil if it is not a string.
    case error(String?)
    case missing(TokenResponse.Name)
    case unusable(TokenResponse.Name)
    /// The access token is of this type, neither a bearer token nor bound to a key.
    case type(String)

    /// The cause, as a clause.
    package var reason: String {
        let response = "the server's token response"
        return switch self {
        case .notAnObject: "\(response) is not a JSON object"
        case .unreadable(let reason): "\(response) can't be read: \(reason)"
        case .repeatedMember(let name):
            "\(response) repeats the member ‘\(String(oneLine: name, limit: 64))’"
        case .error(let error):
            "\(response) has an error"
                + (error.map { " ‘\(String(oneLine: $0, limit: 64))’" } ?? "")
        case .missing(let name): "\(response) has no ‘\(name.rawValue)’"
        case .unusable(let name):
            "in \(response), ‘\(name.rawValue)’ is not a string of visible ASCII characters"
        case .type(let type):
            "the access token is of the type ‘\(String(oneLine: type, limit: 64))’, neither ‘Bearer’ nor ‘DPoP’"
        }
    }

    /// The next step, as a sentence.
    var recovery: Recovery {
        switch self {
        case .missing(.refreshToken):
            "Ask the server's operator whether this client may get refresh tokens."
        default: "Show this text to the server's operator."
        }
    }
}

extension JSONValue {
    /// Whether a member with this value states nothing. Some servers send such a member for an
    /// absent one.
    fileprivate var isEmpty: Bool {
        switch self {
        case .null, .bool(false), .number(0), .string(""), .array([]), .object([:]): true
        default: false
        }
    }

    /// The number, or that of its decimal text: some servers send text.
    var decimal: Double? {
        guard let words = string?.split(separator: " "), words.count == 1,
            words[0].utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == 0x2E })
        else { return number }
        return Double(words[0])
    }

    /// The text of a scope that a server sends as a list; nil for anything else.
    fileprivate var scopeList: JSONValue? {
        guard let array, !array.isEmpty else { return nil }
        let scopes = array.compactMap(\.string)
        guard scopes.count == array.count,
            scopes.allSatisfy({ !$0.isEmpty && $0.isVisibleASCII })
        else { return nil }
        return .string(scopes.joined(separator: " "))
    }
}

extension String {
    package var isVisibleASCII: Bool { utf8.allSatisfy { (0x21...0x7E).contains($0) } }
}
