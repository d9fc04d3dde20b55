import Latchkey
import Testing

@testable import LatchkeyDesktop

@Suite struct KeyringTextTests {
    @Test func `a recovery text is the 64 digits that a prompt accepts, and a checksum`() throws {
        let secret = SecretBytes((0..<32).map { UInt8($0) * 8 })
        let text = KeyringText.recovery(of: secret).text
        #expect(text.wholeMatch(of: /[0-9a-f]{64}-[0-9a-f]{4}/) != nil)
        #expect(text.hasPrefix(KeyringText.hexadecimal(secret).text))
        let typed = [
            text, text.uppercased(), " \(text)\n", text.replacing("-", with: ""),
            text.enumerated().map { ($0.offset % 4 == 0 ? " " : "") + String($0.element) }.joined(),
        ]
        for form in typed {
            #expect(KeyringText.secret(ofRecovery: SecretBytes(form.utf8)) == secret, "\(form)")
        }
    }

    @Test func `a digit that is wrong, missing or too many is noticed`() {
        let text = KeyringText.recovery(of: .random(count: 32)).text
        for index in text.indices where text[index] != "-" {
            var wrong = text
            wrong.replaceSubrange(index...index, with: text[index] == "7" ? "8" : "7")
            #expect(KeyringText.secret(ofRecovery: SecretBytes(wrong.utf8)) == nil, "\(wrong)")
        }
        for wrong in ["", String(text.dropLast()), text + "0", text + "00", "g" + text.dropFirst()]
        {
            #expect(KeyringText.secret(ofRecovery: SecretBytes(wrong.utf8)) == nil, "\(wrong)")
        }
    }

    @Test func `hexadecimal text of every byte comes back`() {
        let all = SecretBytes(0...255)
        #expect(KeyringText.bytes(ofHexadecimal: KeyringText.hexadecimal(all)) == all)
        for wrong in ["0", "0g", "é0", "/0", ":0", "@0", "`0"] {
            #expect(KeyringText.bytes(ofHexadecimal: SecretBytes(wrong.utf8)) == nil, "\(wrong)")
        }
    }
}
