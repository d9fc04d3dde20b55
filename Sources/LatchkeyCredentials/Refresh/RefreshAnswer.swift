internal import FoundationEssentials
internal import Latchkey

/// What a server gave for a refresh token, before anybody may use it.
///
/// Most servers take a refresh token once. So it is kept, sealed, from the moment in which it arrives, whatever is found
/// out about it afterwards: its refresh token is the only one that the server still takes.
struct RefreshAnswer: Codable, Sendable {
    /// The refreshed token; or, where ``flaw`` says why there is none, the old one with the new refresh token.
    let token: Token
    /// When it came, by the server's clock where it told: that is when an ID token must be valid.
    let receivedAt: Date
    /// Why the answer can't be used. Only its refresh token is good.
    let flaw: CredentialError?

    private enum CodingKeys: CodingKey {
        case token, receivedAt
    }

    init(token: Token, receivedAt: Date, flaw: CredentialError? = nil) {
        self.token = token
        self.receivedAt = receivedAt
        self.flaw = flaw
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        token = try container.decode(Token.self, forKey: .token)
        receivedAt = try container.decode(Date.self, forKey: .receivedAt)
        flaw = nil
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(token, forKey: .token)
        try container.encode(receivedAt, forKey: .receivedAt)
    }

    /// The answer after the server has forgotten one of its secrets.
    func without(_ kind: Token.Kind) -> RefreshAnswer {
        RefreshAnswer(token: token.without(kind), receivedAt: receivedAt)
    }
}

extension RefreshAnswer {
    /// - Throws: `KeystoreError` with code `damaged`.
    init(_ bytes: SecretBytes, id: String) throws(KeystoreError) {
        guard
            let answer = bytes.withUnsafeBytes({ try? JSONDecoder().decode(Self.self, from: Data($0)) }),
            answer.token.id == id
        else { throw .damaged("refresh the credential", "what the server gave last can't be read") }
        self = answer
    }

    var bytes: SecretBytes {
        get throws { SecretBytes(try JSONEncoder().encode(self)) }
    }
}
