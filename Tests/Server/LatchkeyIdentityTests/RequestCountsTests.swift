import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Counts of requests") struct RequestCountsTests {
    @Test func `names above the limit are dropped, the least counted first`() {
        let time = SettableClock.atWholeSecond()
        let counts = RequestCounts(limit: 2, per: 60, clock: time.clock)
        for _ in 1...3 { _ = counts.admit("busy") }
        for _ in 1...2 { _ = counts.admit("first") }
        _ = counts.admit("once")
        time.advance(by: 1)
        for number in 1...RequestCounts.maximumNames {
            #expect(counts.admit("made up \(number)") == nil)
        }
        #expect(counts.admit("busy") == 59 && counts.admit("first") == 59)
        // It was dropped, so its count starts at zero.
        #expect(counts.admit("once") == nil && counts.admit("once") == nil)
        #expect(counts.admit("once") == 60)
        time.advance(by: 60)
        #expect(counts.admit("busy") == nil)
    }

    @Test(arguments: [
        ("2001:db8:1:2::1", "20010db800010002/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "20010db800010002/64"),
        ("2001:db8:1:3::1", "20010db800010003/64"), ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
    ])
    func `an IPv6 address counts for its network`(address: String, network: String) throws {
        #expect(try #require(IPAddress(address)).network == network)
    }
}
