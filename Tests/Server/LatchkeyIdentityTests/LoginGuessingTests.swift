import HTTPTypes
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Guessing passwords") struct LoginGuessingTests {
    /// The time of a check is long enough for all requests to arrive during the first ones.
    @Test func `many passwords at once do not delay a login: the server is busy, or answers`()
        async throws
    {
        try await TestServer.run(
            cost: PasswordHash.Cost(logRounds: 12, blockSize: 8, parallelism: 1)
        ) { server in
            let answers = try await withThrowingTaskGroup(of: Answer.self) { group in
                for number in 1...40 {
                    group.addTask {
                        try await TestBrowser(server: server).loginToSettings(
                            "unknown\(number)", password: "wrong")
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let busy = answers.filter { $0.status == 503 }
            #expect(!busy.isEmpty && busy.count < answers.count)
            #expect(busy.allSatisfy { $0.headers[.retryAfter] == "5" })
            #expect(busy.allSatisfy { $0.body.contains("The server is busy.") })
            #expect(answers.allSatisfy { [403, 503].contains($0.status) })
            // A refused password does not count as wrong.
            #expect(try await TestBrowser(server: server).loginToSettings("alice").status == 303)
        }
    }

    @Test func `a NUL after a user name does not make it another name`() async throws {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            for number in 1...LoginThrottle.failuresPerUserAndAddress + 1 {
                let name = "alice\0\(number)"
                let answer = try await browser.loginToSettings(name)
                #expect(answer.status == 400)
            }
            #expect(browser.cookies[TestBrowser.sessionCookie] == nil)
        }
    }

    @Test(arguments: ["a=%00", "a=b%00c", "%00=b", "a=b&c=\0"]) func `a form with a NUL is refused`(
        text: String
    ) {
        #expect(FormFields(text) == nil)
        #expect(FormFields(text.replacing("%00", with: "%01").replacing("\0", with: "d")) != nil)
    }

    @Test func `a user name with a control character is refused, even if it is in the database`()
        async throws
    {
        try await TestServer.run { server in
            try await server.services.users.database.write {
                try $0.execute(
                    """
                    UPDATE "user" SET username = \("ali\u{7}ce"), name_key = \("ali\u{7}ce")
                    WHERE username = 'alice'
                    """)
            }
            #expect(
                try await TestBrowser(server: server).loginToSettings("ali\u{7}ce").status == 403)
        }
    }

    @Test func `all spellings of a user name count against that user`() async throws {
        try await TestServer.run { server in
            let spellings = ["alice", "Alice", "ALICE", "aLICE", "alicE"]
            #expect(spellings.count == LoginThrottle.failuresPerUserAndAddress)
            let browser = TestBrowser(server: server)
            for name in spellings {
                let answer = try await browser.loginToSettings(name, password: "wrong")
                #expect(answer.status == 403)
            }
            #expect(try await browser.loginToSettings("AlicE").status == 429)
        }
    }

    @Test func `guesses at a similar name do not lock a user out`() async throws {
        // Unicode lowercases KELVIN SIGN to an ASCII k, but the database treats it as a different
        // character.
        try await TestServer.run { server in
            for name in ["\u{212A}ate", "kate"] {
                try await server.services.users.add(username: name, password: TestServer.password)
            }
            let browser = TestBrowser(server: server)
            for _ in 1...LoginThrottle.failuresPerUserAndAddress {
                _ = try await browser.loginToSettings("\u{212A}ate", password: "wrong")
            }
            #expect(try await browser.loginToSettings("\u{212A}ate").status == 429)
            #expect(try await browser.loginToSettings("kate").status == 303)
        }
    }

    /// An attacker with many networks, who knows the user's name.
    @Test func `guesses from many networks stop, and do not lock the user's browser out`()
        async throws
    {
        try await TestServer.run {
            $0.trustedProxies = ["127.0.0.1"]
        } body: { server in
            let known = TestBrowser(server: server)
            known.address = "192.0.2.1"
            #expect(try await known.loginToSettings("alice").status == 303)
            // A login of another user does not make the browser known for this one.
            let other = TestBrowser(server: server)
            other.address = "192.0.2.2"
            #expect(try await other.loginToSettings("bob").status == 303)

            var checked = 0
            for network in 1...20 {
                let attacker = TestBrowser(server: server)
                attacker.address = "198.51.100.\(network)"
                attacker.cookies[BrowserCookies.Name.browser.rawValue] =
                    other.cookies[BrowserCookies.Name.browser.rawValue]
                for _ in 1...LoginThrottle.failuresPerUserAndAddress {
                    let answer = try await attacker.loginToSettings("Alice", password: "wrong")
                    #expect([403, 429].contains(answer.status))
                    checked += answer.status == 403 ? 1 : 0
                }
            }
            #expect(checked == LoginThrottle.failuresPerUser)
            let new = TestBrowser(server: server)
            new.address = "192.0.2.3"
            let refused = try await new.loginToSettings("alice")
            #expect(refused.status == 429)
            let seconds = try #require(refused.headers[.retryAfter].flatMap { Int($0) })
            #expect(seconds > 3_000)
            known.cookies[TestBrowser.sessionCookie] = nil
            #expect(try await known.loginToSettings("alice").status == 303)
            // Other users, and attempts in the next hour, are not affected.
            #expect(try await TestBrowser(server: server).loginToSettings("bob").status == 303)
            server.time.advance(by: 3_600)
            #expect(try await new.loginToSettings("alice").status == 303)
        }
    }

    @Test func `attempts that a network may not make do not count against the user`() async throws {
        try await TestServer.run {
            $0.trustedProxies = ["127.0.0.1"]
        } body: { server in
            let attacker = TestBrowser(server: server)
            attacker.address = "198.51.100.1"
            for _ in 1...2 * LoginThrottle.failuresPerUser {
                _ = try await attacker.loginToSettings("alice", password: "wrong")
            }
            let user = TestBrowser(server: server)
            user.address = "192.0.2.1"
            #expect(try await user.loginToSettings("alice").status == 303)
        }
    }

    private static func attempt(_ network: String, browser: String? = nil) -> LoginThrottle.Attempt
    {
        LoginThrottle.Attempt(username: "alice", network: network, browser: browser)
    }

    /// - Returns: The number of guesses from the networks, one in a minute from each, that the
    ///   server checks within the minutes.
    private func guess(
        _ throttle: LoginThrottle, from networks: [String], minutes: Int, _ time: SettableClock
    ) -> Int {
        (0..<minutes).reduce(0) { checked, _ in
            time.advance(by: 60)
            return checked + networks.count { throttle.begin(Self.attempt($0)) == nil }
        }
    }

    @Test func `one network does not lock a user out, however long it guesses`() {
        let time = SettableClock.atWholeSecond()
        let throttle = LoginThrottle(clock: time.clock)
        for _ in 1...5 {
            // The windows of the network and of the user begin at different times.
            #expect(throttle.begin(Self.attempt("192.0.2.9")) == nil)
            let checked = guess(throttle, from: ["198.51.100.1"], minutes: 90, time)
            #expect((1...2 * LoginThrottle.failuresPerShare).contains(checked))
            let user = Self.attempt("192.0.2.1")
            #expect(throttle.begin(user) == nil)
            throttle.succeeded(user)
        }
    }

    @Test func `three networks lock a user out of new browsers, and guess no more than the limit`()
    {
        let time = SettableClock.atWholeSecond()
        let throttle = LoginThrottle(clock: time.clock)
        let networks = (1...40).map { "198.51.100.\($0)" }
        let three = guess(throttle, from: Array(networks.prefix(3)), minutes: 30, time)
        #expect(three == LoginThrottle.failuresPerUser)
        #expect(guess(throttle, from: networks, minutes: 10, time) == 0)
        let refused = LoginThrottle.failuresPerShare + 2
        #expect(guess(throttle, from: ["192.0.2.1"], minutes: refused, time) == 0)
        #expect(throttle.begin(Self.attempt("192.0.2.2", browser: "known")) == nil)
        time.advance(by: 600)
        // The attempts that were refused do not count for the network's hour.
        #expect(throttle.begin(Self.attempt("192.0.2.1")) == nil)
        #expect(
            guess(throttle, from: networks, minutes: 50, time)
                == LoginThrottle.failuresPerUser - 1)
    }

    @Test func `a network's failures in a new browser do not count for a known browser's hour`() {
        let time = SettableClock.atWholeSecond()
        let throttle = LoginThrottle(clock: time.clock)
        let checked = guess(throttle, from: ["192.0.2.1"], minutes: 30, time)
        #expect(checked == LoginThrottle.failuresPerShare)
        time.advance(by: 300)
        #expect(throttle.begin(Self.attempt("192.0.2.1", browser: "known")) == nil)
        #expect(throttle.begin(Self.attempt("192.0.2.1")) != nil)
    }
}
