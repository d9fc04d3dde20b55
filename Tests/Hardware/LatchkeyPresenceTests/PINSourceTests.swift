import LatchkeyPresence
import Testing

struct PINSourceTests {
    @Test(arguments: ["tty", "pinentry", "fd:0", "fd:17", "file:/run/pins", "file:relative"])
    func `a source's description can be parsed`(text: String) throws {
        #expect(try #require(PINSource(text)).description == text)
    }

    @Test(arguments: [
        "", "TTY", "fd:", "fd:-1", "fd:x", "fd:99999999999", "file:", "pin", "env:PIN",
    ])
    func `other text is refused`(text: String) {
        #expect(PINSource(text) == nil)
    }
}
