import Foundation
import Latchkey
import LatchkeyOAuth
import Testing

/// A server's texts are displayed to users, in a terminal and elsewhere.
@Suite struct OAuth2ErrorTests {
    private static let hostile = "a\n\u{1B}[2J\u{9B}b\u{202E}c\u{200B}\u{2028}d"
    private static let harmless = "a\u{FFFD}\u{FFFD}[2J\u{FFFD}b\u{FFFD}c\u{FFFD}\u{FFFD}d"

    @Test func `its text fits one line, decoded or created`() throws {
        let json = try JSONEncoder().encode([
            "error": Self.hostile, "error_description": Self.hostile, "error_uri": Self.hostile,
        ])
        let made = OAuth2Error(error: Self.hostile, description: Self.hostile, uri: Self.hostile)
        for error in [try #require(ServerRefusal(status: 400, body: json).oauthError), made] {
            #expect(error.error == Self.harmless)
            #expect(error.description == Self.harmless && error.uri == Self.harmless)
        }
    }

    @Test func `its code and its texts are limited`() throws {
        let long = String(repeating: "x", count: 900_000)
        let json = try JSONEncoder().encode(["error": long, "error_description": long])
        let error = try #require(ServerRefusal(status: 400, body: json).oauthError)
        #expect(error.error.unicodeScalars.count == OAuth2Error.maximumCodeLength)
        #expect(error.description?.unicodeScalars.count == OAuth2Error.maximumTextLength)
        #expect(error.uri == nil)
        #expect(ServerRefusal(error, status: 400).reason.unicodeScalars.count < 500)
    }

    @Test func `other texts are unchanged`() throws {
        let error = OAuth2Error(
            error: "invalid_grant", description: "InvalidCredentials – ungültig", uri: "https://x/")
        let json = try JSONEncoder().encode([
            "error": error.error, "error_description": error.description, "error_uri": error.uri,
        ])
        #expect(ServerRefusal(status: 400, body: json).oauthError == error)
        #expect(error.description == "InvalidCredentials – ungültig")
    }
}
