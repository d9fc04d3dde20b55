import FoundationEssentials
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The configuration file, without the program.
@Suite("Configuration file") struct ConfigurationTests {
    @Test func `a configuration file keeps the defaults of members that are absent or null`() throws
    {
        let json = #"""
            {"clients": [{"client_id": "a", "name": null, "redirect_uris": ["a.b:/"], "access_token_lifetime_seconds": 60}],
             "identity": {"biometric": {"list_enabled": true}}, "dpop_nonce_required": null, "extensions": {"locker": {}}}
            """#
        let configuration = try ServerConfiguration(json: Data(json.utf8))
        #expect(!configuration.dpopNonceRequired && configuration.publicOrigin == nil)
        #expect(
            configuration.identity.biometric.listEnabled
                && !configuration.identity.biometric.disabled)
        #expect(
            configuration.clients[0].accessTokenLifetime == 60
                && configuration.clients[0].name == nil)
        #expect(configuration.extensions.locker.levelShares)
    }

    @Test(
        arguments: [
            (#""attestaton": null"#, "attestaton", nil),
            (#""publicOrigin": "https://id.example.com""#, "publicOrigin", nil),
            (#""project": "a""#, "project", nil),
            (#""identity": {"biometrics": {}}"#, "identity.biometrics", "biometric"),
            (
                #""identity": {"biometric": {"disable": true}}"#, "identity.biometric.disable",
                "disabled, list_enabled"
            ),
            (#""rate_limits": {"token_per_address": 1}"#, "rate_limits", nil),
            (
                #""extensions": {"locker": {"enable": false}}"#, "extensions.locker.enable",
                "level_shares"
            ),
            (
                #""attestation": {"requires": "presence", "anchors": "/a"}"#,
                "attestation.requires", nil
            ),
            (
                #""clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}, {"client_id": "b", "redirect_uris": ["a.b:/"], "redirect_uri": "x"}]"#,
                "clients.1.redirect_uri",
                nil
            ),
        ] as [(String, String, String?)])
    func `a member that is not a setting is refused at each level`(
        member: String, path: String, settings: String?
    ) {
        let clients =
            member.contains("clients")
            ? "" : #""clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "#
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Data("{\(clients)\(member)}".utf8))
        }
        let (cause, description) = (
            "\(path): unknown member. Use one of: ", error?.description ?? ""
        )
        #expect(description.hasPrefix(cause) && !description.contains("\n"), "\(description)")
        if let settings { #expect(description == cause + settings + ".") }
    }

    @Test func `all members are known, also those without a default`() throws {
        let json = #"""
            {"public_origin": "https://id.example.com",
             "identity": {"biometric": {"list_enabled": true, "disabled": true}},
             "clients": [{"client_id": "a", "name": "A", "redirect_uris": ["a.b:/"],
                          "access_token_lifetime_seconds": 1,
                          "attestation_require": "none", "dpop": "optional"}],
             "extensions": {"locker": {"level_shares": false}}, "dpop_nonce_required": true,
             "attestation": {"require": "none", "anchors": "/a", "accept_simulated": false,
                             "broker_token_digest": ""}}
            """#
        let configuration = try ServerConfiguration(json: Data(json.utf8))
        #expect(
            configuration.publicOrigin == "https://id.example.com"
                && configuration.clients[0].name == "A")
        #expect(
            configuration.clients[0].attestationRequire == "none"
                && configuration.attestation != nil)
    }

    private static func mistakes(
        _ json: String, host: String = "127.0.0.1", port: Int = 8_080
    ) -> [String] {
        do {
            _ = try ServerConfiguration(
                json: Data(json.utf8), listener: .init(host: host, port: port))
            return []
        } catch {
            return "\(error)".split(separator: "\n").map(String.init)
        }
    }

    @Test(arguments: [
        (
            #"{"client_id": "a", "redirect_uris": ["a.b:/", "a.b:/"]}"#,
            "clients.0.redirect_uris.1: repeats another element of the list. Remove it."
        ),
        (
            #"{"client_id": "a", "redirect_uris": [7]}"#,
            "clients.0.redirect_uris.0: must be a text, and is an integer. "
        ),
        (
            #"{"client_id": "a", "redirect_uris": null}"#,
            "clients.0.redirect_uris: no user can log in without a redirect address. Register one"
        ),
        (
            #"{"client_id": "a", "redirect_uris": ["http://a.example/"]}"#,
            "clients.0.redirect_uris.0: “http://a.example/” cannot be a redirect address. Use https, "
        ),
        (
            #"{"client_id": "a", "redirect_uris": ["a.b:/"], "dpop": "always"}"#,
            "clients.0.dpop: “always” is not one of optional, refresh_tokens, access_tokens. "
        ),
        (
            #"{"client_id": "a", "redirect_uris": ["a.b:/"], "access_token_lifetime_seconds": 0}"#,
            "clients.0.access_token_lifetime_seconds: must be at least 1. "
        ),
        (
            #"{"client_id": "a", "redirect_uris": ["a.b:/"], "access_token_lifetime_seconds": 1.5}"#,
            "clients.0.access_token_lifetime_seconds: must be an integer, and is another number. "
        ),
        (
            #"{"client_id": "b", "redirect_uris": ["a.b:/"]}, {"client_id": "b", "redirect_uris": ["c.d:/"]}"#,
            "clients.1.client_id: another client has this client_id. "
        ),
        ("null", "clients.0: must be an object, and is null. "),
    ])
    func `a client that cannot work is refused with its place`(clients: String, message: String) {
        let mistakes = Self.mistakes(#"{"clients": [\#(clients)]}"#)
        #expect(mistakes.count == 1 && mistakes[0].hasPrefix(message), "\(mistakes)")
    }

    @Test(arguments: [
        (
            #""extensions": {"locker": {"level_shares": "yes"}}"#,
            "extensions.locker.level_shares: must "
        ),
        (#""identity": []"#, "identity: must be an object, and is a list. "),
    ])
    func `a value that no setting can have is refused with its place`(
        member: String, message: String
    ) {
        let client = #"{"client_id": "a", "redirect_uris": ["a.b:/"]}"#
        let mistakes = Self.mistakes(#"{"clients": [\#(client)], \#(member)}"#)
        #expect(mistakes.count == 1 && mistakes[0].hasPrefix(message), "\(mistakes)")
    }

    /// RFC 8252 sections 7 and 8.4.
    @Test func `only addresses that a client may use are redirect addresses`() {
        for text in [
            "https://a.example/b?c=d", "http://127.0.0.1/", "http://[::1]/a",
            "http://localhost:3000/a",
            "com.example.app:/done", "com.example.app://done",
        ] {
            #expect(RedirectURI(text) != nil, "\(text)")
        }
        for text in [
            "", "/relative", "a.example/b", "https:///b", "https://a.example/#b",
            "https://u@a.example/",
            "http://a.example/", "http://127.0.0.1.example/", "http://127.0.0.2/", "app:/done",
            "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://a.example/ b",
        ] {
            #expect(RedirectURI(text) == nil, "\(text)")
        }
    }

    @Test(
        arguments: [
            ("https://id.example.com", nil), ("https://id.example.com:8443", nil),
            ("http://127.0.0.1:8080", nil), ("https://localhost:8443", nil),
            ("id.example.com", "is not an origin"), ("https://id.example.com/", "is not an origin"),
            ("https://id.example.com/a", "is not an origin"),
            ("https://id.example.com?a", "is not an origin"),
            ("https://u@id.example.com", "is not an origin"),
            ("https://ID.example.com", "is not an origin"),
            ("http://id.example.com", "is not an origin"), ("", "is not an origin"),
            ("http://127.0.0.1:9090", "the server listens at http://127.0.0.1:8080, not there"),
            ("https://127.0.0.1:8080", "the server listens at http://127.0.0.1:8080, not there"),
        ] as [(String, String?)])
    func `the public origin is an origin at which clients reach the server`(
        origin: String, cause: String?
    ) {
        let json =
            #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "public_origin": "\#(origin)"}"#
        let mistakes = Self.mistakes(json)
        if let cause {
            #expect(
                mistakes.count == 1 && mistakes[0].hasPrefix("public_origin: ")
                    && mistakes[0].contains(cause), "\(mistakes)")
        } else {
            #expect(mistakes.isEmpty, "\(mistakes)")
        }
        // Another machine or a container can forward the port.
        if cause?.contains("listens") == true {
            #expect(Self.mistakes(json, host: "0.0.0.0").isEmpty)
        }
    }
}
