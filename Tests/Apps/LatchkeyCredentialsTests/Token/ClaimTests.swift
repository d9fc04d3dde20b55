import Foundation
import Latchkey
import LatchkeyJOSE
import Testing

@testable import LatchkeyCredentials

/// Claims as types, and tokens that an app reads itself.
struct ClaimTests {
    private struct Claims: HasClaims {
        let claims: [String: JSONValue]

        init(_ json: String) throws {
            claims = try JSONDecoder().decode([String: JSONValue].self, from: Data(json.utf8))
        }
    }

    private enum Role: String, ClaimConvertable {
        case teller, manager
    }

    @Test func `each type reads its own values, and no others`() throws {
        let info = try Claims(
            """
            {"text":"a b","number":7,"fraction":0.5,"big":9007199254740993,"yes":true,"one":1,"two":2,
             "page":"https://id.test/jane","list":["teller","manager"],"mixed":["teller",1],
             "roles":["teller","king"],"address":{"country":"AT"},"nothing":null}
            """)
        let (text, number): (String?, Int?) = (info["text"], info["number"])
        #expect(text == "a b" && number == 7)
        let (noText, noNumber): (String?, Int?) = (info["number"], info["fraction"])
        #expect(noText == nil && noNumber == nil)
        let (big, fraction): (Int?, Double?) = (info["big"], info["fraction"])
        #expect(big == 9_007_199_254_740_993 && fraction == 0.5)
        let (yes, one, two): (Bool?, Bool?, Bool?) = (info["yes"], info["one"], info["two"])
        #expect(yes == true && one == true && two == nil)
        let page: URL? = info["page"]
        #expect(page?.host() == "id.test")
        let (list, words, mixed): ([String]?, [String]?, [String]?) = (
            info["list"], info["text"], info["mixed"]
        )
        #expect(list == ["teller", "manager"] && words == ["a", "b"] && mixed == nil)
        let (roles, unknown): ([Role]?, [Role]?) = (info["list"], info["roles"])
        #expect(roles == [.teller, .manager] && unknown == nil)
        let address: [String: String]? = info["address"]
        #expect(address == ["country": "AT"])
        let (missing, null, value): (String?, String?, JSONValue?) = (
            info["other"], info["nothing"], info["nothing"]
        )
        #expect(missing == nil && null == nil && value == .null)
    }

    @Test(arguments: [
        ("1700000000", 1_700_000_000), (#""2023-11-14T22:13:20Z""#, 1_700_000_000),
        (#""Tue, 14 Nov 2023 22:13:20 GMT""#, 1_700_000_000), ("-1", -1), ("1e300", nil),
        (#""tomorrow""#, nil), ("true", nil),
    ])
    func `a time is a number, or the text of a date`(json: String, seconds: Double?) throws {
        let date: Date? = try Claims(#"{"updated_at":\#(json)}"#).updatedAt
        #expect(date?.timeIntervalSince1970 == seconds)
    }

    @Test func `a claim that must exist is named by the error`() throws {
        let info = try Claims(#"{"email":"jane@id.test","email_verified":false,"given_name":1}"#)
        let email: String = try info.value(for: .email)
        #expect(email == "jane@id.test" && info.emailVerified == false && info.givenName == nil)
        for name in ["given_name", "family_name"] {
            let error = #expect(throws: credentials(.invalidToken)) {
                let _: String = try info.value(for: name)
            }
            #expect(error?.reason.contains("‘\(name)’") == true)
        }
    }

    @Test func `only a token of the key set is valid`() throws {
        let (signer, other) = (try Signer(), try Signer())
        let token = try signer.sign(["exp": 1_700_000_000, "iat": 1_600_000_000])
        #expect(token.expirationTime == Date(timeIntervalSince1970: 1_700_000_000))
        #expect(token.issuedAt == Date(timeIntervalSince1970: 1_600_000_000))
        let read = try JWT(token.rawValue)
        #expect(try read == token && read.validate(using: JWKS(keys: [signer.jwk])))
        #expect(try signer.jwk.verify(token: token))
        // Another key with the same name.
        var forged = try other.jwk
        forged.kid = try signer.jwk.kid
        #expect(try !read.validate(using: JWKS(keys: [forged])) && !forged.verify(token: read))
        forged.kid = "another"
        #expect(throws: credentials(.invalidToken)) {
            try read.validate(using: JWKS(keys: [forged]))
        }
        let unsigned = try signer.compact([:], header: ["alg": "none"])
        #expect(throws: credentials(.unsupported)) {
            try JWT(unsigned).validate(using: JWKS(keys: [signer.jwk]))
        }
        for text in ["", "a.b", "e30.W10.AA"] {
            #expect(throws: credentials(.invalidToken)) { try JWT(text) }
        }
    }
}
