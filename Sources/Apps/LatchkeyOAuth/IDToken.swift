internal import FoundationEssentials
package import LatchkeyJOSE

/// The claims of an ID token (OpenID Connect Core section 2). Reading does not verify the token;
/// ``IDTokenValidator`` does.
package struct IDToken: Hashable, Sendable {
    package let iss: String
    package let sub: String
    package let aud: [String]
    package let azp: String?
    package let exp: Double
    package let iat: Double
    package let nbf: Double?
    package let nonce: String?
    package let atHash: String?
    package let cHash: String?
    package let dsHash: String?
    /// When the user logged in, by the server's clock; seconds since 1970.
    package let authTime: Double?
    /// Whether the server can authenticate the user again.
    package let canReauthenticate: Bool

    /// Reads the claims of a token.
    ///
    /// - Throws: ``IDTokenFlaw``: `claim` if a claim is missing or has another type than the
    ///   standard's. A text claim that is `null` is malformed, not absent.
    package init(_ jws: ReceivedJWS) throws(IDTokenFlaw) {
        let claims = jws.payload
        func optionalText(_ name: String) throws(IDTokenFlaw) -> String? {
            guard let value = claims[name] else { return nil }
            guard let text = value.string else { throw .claim(name, "is not a string") }
            return text
        }
        func text(_ name: String) throws(IDTokenFlaw) -> String {
            guard let text = try optionalText(name) else { throw .claim(name, "is missing") }
            return text
        }
        func optionalNumber(_ name: String) throws(IDTokenFlaw) -> Double? {
            guard let value = claims[name], value != .null else { return nil }
            // Some servers send this time as text.
            guard let number = name == "auth_time" ? value.decimal : value.number else {
                throw .claim(name, "is not a number")
            }
            return number
        }
        func number(_ name: String) throws(IDTokenFlaw) -> Double {
            guard let number = try optionalNumber(name) else {
                throw .claim(name, claims[name] == nil ? "is missing" : "is not a number")
            }
            return number
        }
        iss = try text("iss")
        sub = try text("sub")
        guard Self.isSubject(sub) else {
            throw .claim(
                "sub", "does not have 1 to 255 ASCII characters without a blank at its ends")
        }
        switch claims["aud"] {
        case .string(let one): aud = [one]
        case .array(let list):
            aud = list.compactMap(\.string)
            guard aud.count == list.count else { throw .claim("aud", "is not a list of strings") }
        case nil: throw .claim("aud", "is missing")
        default: throw .claim("aud", "is neither a string nor a list of strings")
        }
        azp = try optionalText("azp")
        exp = try number("exp")
        iat = try number("iat")
        nbf = try optionalNumber("nbf")
        nonce = try optionalText("nonce")
        atHash = try optionalText("at_hash")
        cHash = try optionalText("c_hash")
        dsHash = try optionalText("ds_hash")
        authTime = try optionalNumber("auth_time")
        let claim = claims["https://authgear.com/claims/user/can_reauthenticate"]
        canReauthenticate = claim?.bool ?? false
    }

    /// Reads the claims of a token in compact form.
    package init(compact: String) throws(IDTokenFlaw) {
        let jws: ReceivedJWS
        do throws(JWSFlaw) { jws = try ReceivedJWS(compact) } catch { throw IDTokenFlaw(error) }
        try self.init(jws)
    }

    /// Whether the text can be a user's id: 1 to 255 printable ASCII characters (OpenID Connect Core
    /// section 2), without a blank at its ends. A directory's names contain blanks.
    package static func isSubject(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
            && text.first != " " && text.last != " "
    }
}
