import Latchkey
import Testing

struct QuietTimesTests {
    @Test func `each refusal doubles the quiet time, up to a limit`() {
        var quiet = QuietTimes<String>()
        var now = Duration.zero
        #expect(quiet.remaining(for: "a", at: now) == nil)
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            quiet.refuse("a", at: now)
            #expect(quiet.remaining(for: "a", at: now) == .seconds(seconds))
            #expect(quiet.remaining(for: "b", at: now) == nil)
            now += .seconds(seconds)
            #expect(quiet.remaining(for: "a", at: now) == nil)
        }
        quiet.accept("a")
        quiet.refuse("a", at: now)
        #expect(quiet.remaining(for: "a", at: now) == .seconds(10))
    }

    @Test func `refusals are forgotten after a time without another one`() {
        var quiet = QuietTimes<Int>()
        quiet.refuse(1, at: .zero)
        quiet.refuse(1, at: .seconds(10))
        quiet.refuse(1, at: .seconds(30 + 600))
        #expect(quiet.remaining(for: 1, at: .seconds(630)) == .seconds(10))
    }

    @Test func `tolerated refusals count, but have no quiet time`() {
        var quiet = QuietTimes<Int>()
        for _ in 0..<3 {
            quiet.refuse(1, tolerating: 3, at: .zero)
            #expect(quiet.remaining(for: 1, at: .zero) == nil)
        }
        quiet.refuse(1, tolerating: 3, at: .zero)
        #expect(quiet.remaining(for: 1, at: .zero) == .seconds(10))
    }

    @Test func `a refusal can have a lower limit, and lowers no time`() {
        var quiet = QuietTimes<Int>()
        var now = Duration.zero
        for seconds in [10, 20, 30, 30] {
            quiet.refuse(1, upTo: .seconds(30), at: now)
            #expect(quiet.remaining(for: 1, at: now) == .seconds(seconds))
            now += .seconds(seconds)
        }
        for seconds in [60, 120] {
            quiet.refuse(1, at: now)
            #expect(quiet.remaining(for: 1, at: now) == .seconds(seconds))
            now += .seconds(seconds)
        }
        quiet.refuse(1, upTo: .seconds(30), at: now)
        #expect(quiet.remaining(for: 1, at: now) == .seconds(120))
    }

    @Test func `many origins do not end the quiet time of a refused one`() {
        var quiet = QuietTimes<Int>()
        quiet.refuse(-1, at: .zero)
        for origin in 0..<1000 { quiet.refuse(origin, tolerating: 5, at: .seconds(1)) }
        #expect(quiet.remaining(for: -1, at: .seconds(1)) == .seconds(9))
    }
}
