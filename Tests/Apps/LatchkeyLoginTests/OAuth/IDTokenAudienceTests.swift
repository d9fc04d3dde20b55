import Testing

@testable import LatchkeyOAuth

/// OpenID Connect Core section 3.1.3.7 items 3 to 5.
struct IDTokenAudienceTests {
    @Test(
        arguments: [
            (["app"], nil, true), (["app"], "app", true), (["app", "https://a.test"], "app", true),
            (["https://a.test", "app"], "app", true), ([], nil, false), ([], "app", false),
            (["other"], nil, false),
            (["other"], "app", false), (["app"], "other", false), (["app"], "", false),
            (["app", "other"], nil, false),
            (["app", "other"], "app", false), (["app", "https://a.test"], nil, false),
            (["app", "https://a.test"], "https://a.test", false), (["app", "app"], nil, false),
            (["https://a.test"], "app", false), (["app", "https://b.test"], "app", false),
        ] as [([String], String?, Bool)])
    func `a token is for the client alone`(audience: [String], party: String?, isAccepted: Bool) {
        let validator = IDTokenValidator(issuer: "https://a.test", clientID: "app")
        #expect(validator.isAudience(audience, authorizedParty: party) == isAccepted)
    }
}
