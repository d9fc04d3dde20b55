import Latchkey
import LatchkeyCertificates
import SwiftASN1
import Testing
import X509

/// Names from text (RFC 4514).
struct DistinguishedNameTests {
    @Test func `the most specific part comes first in text and last in DER`() throws {
        let name = try DistinguishedName(rfc4514: "CN=Ann Onymous,OU=Lab+L=Malmö,O=Example,C=SE")
        let parts: [[String]] = name.map { part in
            part.map { "\($0.type) \(String($0.value) ?? "")" }.sorted()
        }
        #expect(
            parts == [
                ["2.5.4.6 SE"], ["2.5.4.10 Example"], ["2.5.4.11 Lab", "2.5.4.7 Malmö"],
                ["2.5.4.3 Ann Onymous"],
            ])
    }

    @Test(arguments: [
        ("CN=a\\,b\\+c\\\\d\\\"e\\=f", "a,b+c\\d\"e=f"), ("CN=  blank  ", "blank"),
        ("CN=kept\\ ", "kept "),
        ("cn = a=b", "a=b"), ("CN=caf\\C3\\A9", "café"), ("2.5.4.3=dotted", "dotted"),
        ("CN=\\#1", "#1"),
    ])
    func `escaped and unescaped values are parsed`(text: String, value: String) throws {
        let attribute = try #require(try DistinguishedName(rfc4514: text).first?.first)
        #expect(attribute.type == .RDNAttributeType.commonName)
        #expect(String(attribute.value) == value)
    }

    @Test(arguments: [
        "", "CN", "CN=", "CN=a,", ",CN=a", "CN=a,,O=b", "CN=a+", "XX=a", "CN=a\\", "CN=a\\x",
        "CN=a\\F", "CN=a<b",
        "CN=a;O=b", "CN=\"a\"", "CN=#0401", "CN=\\FF", "C=SWE", "C=S", "E=ä", "9.9.9=a", "2.5.4.=a",
        "CN=\(String(repeating: "x", count: 65))", "CN=a\0b",
    ])
    func `an invalid name is refused`(text: String) {
        #expect(throws: KeystoreError.invalidInput("")) { _ = try DistinguishedName(rfc4514: text) }
    }

    @Test func `a value of the maximum length is accepted`() throws {
        let longest = String(repeating: "ä", count: 64)
        let attribute = try #require(try DistinguishedName(rfc4514: "CN=\(longest)").first?.first)
        #expect(String(attribute.value) == longest)
    }
}
