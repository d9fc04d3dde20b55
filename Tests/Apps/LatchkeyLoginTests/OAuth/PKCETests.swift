import Testing

@testable import LatchkeyOAuth

struct PKCETests {
    @Test(arguments: [
        (
            "the-quick-brown-fox-jumps-over-the-lazy-dog",
            "lSqEXx4ypW-y7Dj_NrquA6XliP_YgrqI9C1nkbNMIUs"
        ),
        (
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ",
            "RqIZl4LIgn8KxW9QO-nTnv7pf0CnNrksx9fF-CXP2FE"
        ),
        (
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        ),
    ])
    func `the challenge is that of RFC 7636 and of the server's own tests`(
        verifier: String, challenge: String
    ) {
        #expect(PKCE(codeVerifier: verifier).codeChallenge == challenge)
    }

    @Test func `verifiers are long enough and differ`() {
        let verifiers = (0..<100).map { _ in PKCE().codeVerifier }
        #expect(Set(verifiers).count == 100)
        #expect(verifiers.allSatisfy { $0.wholeMatch(of: /[-._~A-Za-z0-9]{43}/) != nil })
    }
}
