import Latchkey
import LatchkeyOAuth
import Testing

struct FormEncodingTests {
    @Test func `everything but unreserved characters is escaped`() {
        let text = FormEncoding.encode([("a", "+&=% /?"), ("b", "ä~-._Z9"), ("c", "")])
        #expect(text == "a=%2B%26%3D%25%20%2F%3F&b=%C3%A4~-._Z9&c=")
    }

    @Test func `encoded fields are decoded`() {
        let fields = ["a": "+&=% /?\u{0}\n", "b": "日本", "": "x"]
        #expect(
            FormEncoding.decode(FormEncoding.encode(fields.map { ($0.key, $0.value) })) == fields)
    }

    @Test func `a plus is a space and a value may be missing`() {
        #expect(FormEncoding.decode("a=b+c&d&e=f=g") == ["a": "b c", "d": "", "e": "f=g"])
    }

    @Test(arguments: ["a=%", "a=%4", "a=%zz", "a=%FF", "a=1&a=2", "a=1&%61=2"])
    func `broken escapes, bad UTF-8 and repeated names are refused`(text: String) {
        #expect(FormEncoding.decode(text) == nil)
    }
}
