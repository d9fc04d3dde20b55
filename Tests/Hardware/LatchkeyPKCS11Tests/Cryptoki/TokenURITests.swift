import FoundationEssentials
import Testing

@testable import LatchkeyPKCS11

struct TokenURITests {
    @Test func `attributes of the URI are read, and missing ones are nil`() throws {
        let uri = try TokenURI(
            "pkcs11:token=My%20token;serial=0123;object=login;id=%01%ff?module-path=/usr/lib/module.so"
        )
        #expect(uri.label == "My token")
        #expect(uri.serial == "0123")
        #expect(uri.manufacturer == nil)
        #expect(uri.model == nil)
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
        #expect(again.manufacturer == "maker")
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
            label: label, manufacturer: "maker", model: "model", serial: serial,
            flags: [.initialized],
            pinLength: nil, hardwareVersion: .init(major: 1, minor: 0),
            firmwareVersion: .init(major: 1, minor: 0))
    }
}
