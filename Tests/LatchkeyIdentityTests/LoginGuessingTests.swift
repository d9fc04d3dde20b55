import GRDB
import Latchkey
import Testing

@testable import latchkey_identity

@Suite("Guessing passwords") struct LoginGuessingTests {
    @Test func `a NUL behind the name does not make it another name`() async throws {
        try await TestServer.run { server in
            let visitor = Visitor(server: server)
            for number in 1...LoginThrottle.failuresPerUserAndAddress + 1 {
                let name = "alice\0\(number)"
                let answer = try await visitor.loginToSettings(name)
                #expect(answer.status == 400)
            }
            #expect(visitor.cookies[Visitor.sessionCookie] == nil)
        }
    }

    @Test(arguments: ["a=%00", "a=b%00c", "%00=b", "a=b&c=\0"]) func `a form with a NUL is no form`(text: String) {
        #expect(FormFields(text) == nil)
        #expect(FormFields(text.replacing("%00", with: "%01").replacing("\0", with: "d")) != nil)
    }

    @Test func `a name with a control character is nobody's, whatever the database says`() async throws {
        try await TestServer.run { server in
            try await server.services.users.database.write {
                try $0.execute(sql: "UPDATE user SET username = 'ali' || char(7) || 'ce' WHERE username = 'alice'")
            }
            #expect(try await Visitor(server: server).loginToSettings("ali\u{7}ce").status == 403)
        }
    }

    @Test func `every spelling that leads to a user counts against that user`() async throws {
        try await TestServer.run { server in
            let spellings = ["alice", "Alice", "ALICE", "aLICE", "alicE"]
            #expect(spellings.count == LoginThrottle.failuresPerUserAndAddress)
            let visitor = Visitor(server: server)
            for name in spellings {
                let answer = try await visitor.loginToSettings(name, password: "wrong")
                #expect(answer.status == 403)
            }
            #expect(try await visitor.loginToSettings("AlicE").status == 429)
        }
    }

    @Test func `nobody is locked out by guesses at a name that only looks alike`() async throws {
        // KELVIN SIGN becomes an ASCII k when Unicode lowers it, but is another name to the database.
        try await TestServer.run { server in
            for name in ["\u{212A}ate", "kate"] {
                try await server.services.users.add(username: name, password: TestServer.password)
            }
            let visitor = Visitor(server: server)
            for _ in 1...LoginThrottle.failuresPerUserAndAddress {
                _ = try await visitor.loginToSettings("\u{212A}ate", password: "wrong")
            }
            #expect(try await visitor.loginToSettings("\u{212A}ate").status == 429)
            #expect(try await visitor.loginToSettings("kate").status == 303)
        }
    }
}
