import LatchkeyOAuth
import Synchronization
import Testing

struct SystemBrowserTests {
    @Test func `the message has the address, and no time limit that the browser does not know`()
        async
    {
        let messages = Mutex<[String]>([])
        let url = "http://127.0.0.1:40123/link"
        let browser = SystemBrowser(environment: ["BROWSER": "/bin/true"]) { text in
            messages.withLock { $0.append(text) }
        }
        await browser.open(url)
        let message = messages.withLock { $0 }
        #expect(message.count == 1 && message.first?.hasSuffix(url) == true, "\(message)")
        #expect(message.first?.contains(/[0-9]+ (second|minute)/) == false, "\(message)")
    }
}
