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
            logRounds: 12
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
            for number in 1...PasswordAttempts.maximum + 1 {
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

    @Test func `wrong passwords and unknown users get the same response, and are limited`()
        async throws
    {
        try await TestServer.run { server in
            let browser = TestBrowser(server: server)
            for name in ["alice", "nobody"] {
                for attempt in 1...PasswordAttempts.maximum {
                    let answer = try await browser.loginToSettings(
                        name, password: "wrong \(attempt)")
                    #expect(answer.status == 403)
                    #expect(answer.body.contains("The user name or the password is wrong."))
                }
                let refused = try await browser.loginToSettings(name)
                #expect(refused.status == 429)
                #expect(refused.body.contains("Please wait 5 minutes"))
            }
            #expect(try await browser.loginToSettings("bob").status == 303)
        }
    }

    @Test func `a login ends the count of wrong passwords, also one of the wrong user`()
        async throws
    {
        try await TestServer.run { server in
            let hint = "https://authgear.com/login_hint?type=user_id&user_id=\(server.bob.id)"
            let pinned = AuthorizationParameters(more: ["login_hint": hint])
            for _ in 1...3 {
                for _ in 1..<PasswordAttempts.maximum {
                    _ = try await TestBrowser(server: server).loginToSettings(
                        "alice", password: "wrong")
                }
                let wrongUser = try await TestBrowser(server: server).login(
                    pinned, username: "alice")
                #expect(wrongUser.body.contains("set up for another account"))
            }
            #expect(try await TestBrowser(server: server).loginToSettings("alice").status == 303)
        }
    }

    @Test func `all spellings of a user name count against that user`() async throws {
        try await TestServer.run { server in
            let spellings = ["alice", "Alice", "ALICE", "aLICE", "alicE"]
            for number in 0..<PasswordAttempts.maximum {
                let answer = try await TestBrowser(server: server).loginToSettings(
                    spellings[number % spellings.count], password: "wrong")
                #expect(answer.status == 403)
            }
            let refused = try await TestBrowser(server: server).loginToSettings("AlicE")
            #expect(refused.status == 429 && refused.headers[.retryAfter] == "300")
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
            for _ in 1...PasswordAttempts.maximum {
                _ = try await browser.loginToSettings("\u{212A}ate", password: "wrong")
            }
            #expect(try await browser.loginToSettings("\u{212A}ate").status == 429)
            #expect(try await browser.loginToSettings("kate").status == 303)
        }
    }
}
