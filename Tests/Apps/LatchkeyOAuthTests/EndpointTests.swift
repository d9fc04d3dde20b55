import HTTPTypes
import Latchkey
import LatchkeyOAuth
import Testing

struct EndpointTests {
    @Test(arguments: [
        ("https://a.test", "https://a.test/", "https://a.test"),
        ("https://A.test:8443/x?y=1", "https://a.test:8443/x?y=1", "https://a.test:8443"),
        ("http://127.0.0.1:80/a%20b", "http://127.0.0.1:80/a%20b", "http://127.0.0.1:80"),
        ("http://127.9.8.7", "http://127.9.8.7/", "http://127.9.8.7"),
        ("http://localhost:1", "http://localhost:1/", "http://localhost:1"),
        ("http://[::1]:9/x", "http://[::1]:9/x", "http://[::1]:9"),
    ])
    func `a secure or local address keeps its parts`(text: String, whole: String, origin: String)
        throws
    {
        let endpoint = try #require(Endpoint(text))
        #expect(endpoint.text == whole)
        #expect(endpoint.origin == origin)
        #expect(endpoint.request(.get).authority == endpoint.authority)
    }

    @Test(arguments: [
        "", "a.test", "/path", "ftp://a.test", "http://a.test", "http://127.0.0.1.evil.test",
        "http://1270.0.0.1",
        "http://127.0.0", "http://127.0.0.256", "http://localhost.evil.test", "https://u@a.test",
        "https://u:p@a.test",
        "https://a.test/#x", "https://a.test/a b", "https://a.test/\r\nX: y", "https://",
        "http://user@localhost",
        "https://ä.test", "https://a.test:0/", "https://a.test:65536/", "https://127.0.0.1:70000/t",
        "http://127.0.0.1:4294967296/", "https://127.0.0.1:99999999999999999999/",
        "https://a.test:/x",
    ])
    func `every other address is refused`(text: String) {
        #expect(Endpoint(text) == nil)
    }

    @Test func `paths are appended below the address and replaced on its origin`() throws {
        let endpoint = try #require(Endpoint("https://a.test/app/?x=1"))
        #expect(endpoint.appending("/b").text == "https://a.test/app/b")
        #expect(endpoint.onSameOrigin(path: "/c").text == "https://a.test/c")
    }
}
