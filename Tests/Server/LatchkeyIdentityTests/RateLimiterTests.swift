import FoundationEssentials
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Rate limits") struct RateLimiterTests {
    @Test func `names above the limit are dropped, the least counted first`() {
        let time = SettableClock.atWholeSecond()
        let limiter = MemoryRateCounters(limit: 2, per: 60, maximumNames: 8, clock: time.clock)
        for _ in 1...3 { _ = limiter.admit("busy") }
        for _ in 1...2 { _ = limiter.admit("first") }
        _ = limiter.admit("once")
        time.advance(by: 1)
        for number in 1...100 { #expect(limiter.admit("made up \(number)")) }
        #expect(limiter.wait("busy") != nil && limiter.wait("first") != nil)
        // It was dropped, so its count starts at zero.
        #expect(limiter.admit("once") && limiter.admit("once"))
        #expect(!limiter.admit("once"))
    }

    @Test func `long names are counted`() async throws {
        let limiter = RateLimiter(
            "test", limit: 1, per: 60, clock: SettableClock.atWholeSecond().clock)
        let (one, other) = (
            String(repeating: "x", count: 60_000) + "1", String(repeating: "x", count: 60_000) + "2"
        )
        #expect(try await limiter.admit(one))
        #expect(try await limiter.admit(other))
        #expect(try await !limiter.admit(one))
        #expect(try await limiter.wait(one) != nil)
        try await limiter.reset(one)
        #expect(try await limiter.admit(one))
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
