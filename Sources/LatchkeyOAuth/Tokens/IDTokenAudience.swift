/// The rules for whom an ID token is (OpenID Connect Core section 3.1.3.7 items 3 to 5).
package struct IDTokenAudience: Hashable, Sendable {
    private let audience: [String]
    private let authorizedParty: String?

    /// - Parameters:
    ///   - audience: The members of `aud`.
    ///   - authorizedParty: `azp`.
    package init(_ audience: [String], authorizedParty: String?) {
        self.audience = audience
        self.authorizedParty = authorizedParty
    }

    /// Whether the token is for this client, and for no other: next to the client, only the issuer itself may be in the
    /// audience, and a token of several audiences must name the client as its authorized party.
    package func isOnly(_ clientID: String, of issuer: String) -> Bool {
        guard audience.contains(clientID), audience.allSatisfy({ $0 == clientID || $0 == issuer }) else { return false }
        guard let authorizedParty else { return audience.count == 1 }
        return authorizedParty == clientID
    }
}
