import Foundation
import Latchkey
import Testing

struct Base64URLTests {
    /// RFC 4648 section 10, without padding, and RFC 7515 appendix C.
    static let vectors: [([UInt8], String)] = [
        ([], ""), (Array("f".utf8), "Zg"), (Array("fo".utf8), "Zm8"), (Array("foo".utf8), "Zm9v"),
        (Array("foobar".utf8), "Zm9vYmFy"), ([3, 236, 255, 224, 193], "A-z_4ME"),
    ]

    @Test(arguments: vectors)
    func `known texts are encoded and decoded`(bytes: [UInt8], text: String) {
        #expect(Base64URL.encode(bytes) == text)
        #expect(Base64URL.decode(text).map(Array.init) == bytes)
    }

    @Test(arguments: ["Zg==", "Zh", "Z", "Zm9v\n", "Zm 9v", "A+z/4ME", "Zm9vYg=", "ü"])
    func `other spellings of a text are refused`(text: String) {
        #expect(Base64URL.decode(text) == nil)
    }

    @Test func `every length round-trips`() {
        for count in 0..<70 {
            let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max) }
            #expect(Base64URL.decode(Base64URL.encode(bytes)).map(Array.init) == bytes)
        }
    }
}
