import FoundationEssentials
import LatchkeySimulators
import Testing

@testable import LatchkeyPKCS11

struct TokenURITests {
    @Test func `attributes of the URI are read, and missing ones are nil`() throws {
        let uri = try TokenURI(
            "pkcs11:token=My%20token;serial=0123;object=login;id=%01%ff?module-path=/usr/lib/module.so"
        )
        #expect(uri.label == "My token")
        #expect(uri.serialText?.text == "0123")
        #expect(uri.manufacturerText == nil)
        #expect(uri.modelText == nil)
        #expect(uri.keyLabel == "login")
        #expect(uri.keyID == Data([1, 255]))
        #expect(uri.modulePath == "/usr/lib/module.so")
        #expect(uri.namesKey)
        #expect(try !TokenURI("pkcs11:token=a").namesKey)
    }

    @Test(arguments: [
        "", "token=a", "http://a", "pkcs11:token=%zz", "pkcs11:token",
        "pkcs11:token=a?pin-value=1234", "pkcs11:token=a?pin-source=/etc/pin", "pkcs11:colour=red",
        "pkcs11:slot-id=0", "pkcs11:token=a;slot-description=b", "pkcs11:library-manufacturer=a",
        "pkcs11:library-version=1.2",
    ])
    func `an invalid URI or one with a PIN is refused, and the error does not contain it`(
        _ text: String
    ) {
        let error = #expect(throws: CryptokiError.self) { try TokenURI(text) }
        #expect(error?.kind == .invalidURI)
        #expect(error?.description.contains("1234") == false)
    }

    @Test func `a URI of a token matches only that token`() throws {
        let token = TokenInformation.sample(label: "work", serial: "1")
        let uri = try TokenURI(naming: token, modulePath: "/usr/lib/a b.so")
        #expect(uri.matches(token))
        #expect(!uri.matches(.sample(label: "work", serial: "2")))
        #expect(!uri.matches(.sample(label: "home", serial: "1")))
        let again = try TokenURI(uri.string)
        #expect(again == uri)
        #expect(again.modulePath == "/usr/lib/a b.so")
        #expect(again.label == "work")
        #expect(again.manufacturerText?.text == "maker")
    }

    @Test func `padding with blanks or NUL does not matter, and other programs' URIs match`() throws
    {
        let padded = TokenInformation.sample(label: "work\0\0 \0", serial: "SW   TPM\0\0")
        for serial in ["SW%20%20%20TPM", "SW%20%20%20TPM%00%00", "SW%20%20%20TPM%20"] {
            #expect(try TokenURI("pkcs11:serial=\(serial);token=work").matches(padded))
        }
        #expect(try !TokenURI("pkcs11:serial=SW%20TPM").matches(padded))
        let own = try TokenURI(naming: padded, modulePath: "/m.so")
        #expect(own.matches(padded))
        #expect(own.string.contains("serial=SW%20%20%20TPM%00%00"), "as p11tool compares it")
        #expect(own.serialText?.text == "SW   TPM")
        let name = TokenName(padded, id: Data([1]))
        #expect(TokenName(name.uri) == name)
        // Display replaces both bytes by the same text; they still identify two tokens.
        let (first, second) = (TokenText([0x61, 0x01]), TokenText([0x61, 0x02]))
        #expect(first.text == second.text && first != second)
    }

    @Test func `a module with several paths is one module`() throws {
        let directory = try TemporaryDirectory()
        let (file, link) = (directory.path(of: "module.so"), directory.path(of: "link.so"))
        try Data().write(to: URL(filePath: file))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
        let resolved = try Module.resolve(file)
        #expect(Module.files([link, file, link]) == [resolved])
    }

    @Test func `a URI without attributes matches any token`() throws {
        #expect(try TokenURI("pkcs11:").matches(.sample(label: "a", serial: "b")))
        #expect(try TokenURI("pkcs11:manufacturer=maker").matches(.sample(label: "a", serial: "b")))
        #expect(
            try !TokenURI("pkcs11:manufacturer=other").matches(.sample(label: "a", serial: "b")))
    }
}

extension TokenInformation {
    static func sample(label: String, serial: String) -> TokenInformation {
        TokenInformation(
            texts: TokenTexts(
                label: TokenText(label.utf8), manufacturer: TokenText("maker".utf8),
                model: TokenText("model".utf8), serial: TokenText(serial.utf8)),
            flags: [.initialized],
            pinLength: nil, hardwareVersion: .init(major: 1, minor: 0),
            firmwareVersion: .init(major: 1, minor: 0))
    }
}
