import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

/// The expectation of a server of its own for the key of a set-up request.
struct AttestationExpectationTests {
    private func request(challenge: String) throws -> BiometricRequest {
        let parts = ["{}", #"{"action":"setup","challenge":"\#(challenge)"}"#, "AA"]
        return try BiometricRequest(
            parts.map { Base64URL.encode(Data($0.utf8)) }.joined(separator: "."))
    }

    @Test func `a request without a challenge has no expectation`() throws {
        let parts = ["{}", #"{"action":"setup"}"#, "AA"]
        let request = try BiometricRequest(
            parts.map { Base64URL.encode(Data($0.utf8)) }.joined(separator: "."))
        let kid = try #require(KeyID(rawValue: "12345678-1234-1234-1234-123456789012"))
        let error = #expect(throws: BiometricRequestError.self) {
            try AttestationExpectation(
                of: request, kid: kid, issuer: "https://id.example",
                requirement: AttestationRequirement(.presence))
        }
        #expect(error?.code == .unacceptable)
    }

    @Test(arguments: [
        ("https://id.example", "id.example"), ("https://id.example:8443/auth", "id.example"),
        ("http://127.0.0.1:40124", "127.0.0.1"),
    ])
    func `it has the request's challenge, the key's name and the server`(
        issuer: String, host: String
    ) throws {
        let kid = try #require(KeyID(rawValue: "12345678-1234-1234-1234-123456789012"))
        let requirement = AttestationRequirement(.presence)
        let expectation = try AttestationExpectation(
            of: request(challenge: "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), kid: kid,
            issuer: issuer, requirement: requirement)
        #expect(
            expectation
                == AttestationExpectation(
                    challenge: Data("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8),
                    binding: .webAuthn(
                        rpID: host, origin: issuer, credentialID: Data(kid.rawValue.utf8)),
                    requirement: requirement))
    }
}
