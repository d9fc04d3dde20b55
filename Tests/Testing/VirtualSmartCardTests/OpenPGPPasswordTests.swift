import Testing
import VirtualSmartCard

/// The passwords of the OpenPGP application.
struct OpenPGPPasswordTests {
    @Test(arguments: [("81", "313233343536"), ("82", "313233343536"), ("83", "3132333435363738")])
    func `each reference is verified separately`(_ reference: String, _ password: String) throws {
        var card = try Self.selected()
        #expect(try card.send("002000\(reference)").status == .wrongSecret(attemptsLeft: 3))
        #expect(
            try card.send("002000\(reference)0\(password.count / 2)\(password)").status == .success)
        #expect(try card.send("002000\(reference)").status == .success)
        for other in ["81", "82", "83"] where other != reference {
            #expect(try card.send("002000\(other)").status == .wrongSecret(attemptsLeft: 3))
        }
        #expect(try card.send("0020ff\(reference)").status == .success)
        #expect(try card.send("002000\(reference)").status == .wrongSecret(attemptsLeft: 3))
    }

    @Test func `wrong passwords are counted, and the third blocks both references of PW1`() throws {
        var card = try Self.selected()
        let wrong = "313131313131"
        #expect(try card.send("0020008206\(wrong)").status == .securityStatusNotSatisfied)
        #expect(try card.send("00ca00c400").data == bytes("007f7f7f020003"))
        #expect(try card.send("0020008106\(wrong)").status == .securityStatusNotSatisfied)
        #expect(try card.send("0020008106\(wrong)").status == .authenticationBlocked)
        #expect(try card.send("0020008206313233343536").status == .authenticationBlocked)
        #expect(try card.send("00ca00c400").data == bytes("007f7f7f000003"))
    }

    @Test func `a password of another length is not counted as an attempt`() throws {
        var card = try Self.selected()
        #expect(try card.send("00200081053132333435").status == .wrongLength)
        #expect(
            try card.send("0020008107313233343536ff").status == .securityStatusNotSatisfied,
            "there is no padding")
        #expect(try card.send("00ca00c400").data == bytes("007f7f7f020003"))
        #expect(try card.send("0020008406313233343536").status == .incorrectParameters)
    }

    @Test func `a wrong password ends an earlier verification`() throws {
        var card = try Self.selected()
        #expect(try card.send("0020008206313233343536").status == .success)
        #expect(try card.send("0020008206313131313131").status == .securityStatusNotSatisfied)
        #expect(try card.send("00200082").status == .wrongSecret(attemptsLeft: 2))
    }

    @Test func `a password is changed with the old password`() throws {
        var card = try Self.selected()
        #expect(try card.send("002400810d 313233343536 32323232323232").status == .success)
        #expect(try card.send("002000810732323232323232").status == .success)
        #expect(try card.send("002400810a 32323232323232 313131").status == .wrongLength)
        #expect(try card.send("0024008310 3132333435363738 3838383838383838").status == .success)
        #expect(try card.send("00200083083838383838383838").status == .success)
        #expect(
            try card.send("002400820c 313233343536 313131313131").status == .incorrectParameters)
    }

    @Test func `PW3 resets a blocked PW1`() throws {
        var card = try Self.selected()
        for _ in 0..<3 { _ = try card.send("0020008206313131313131") }
        #expect(try card.send("002c028106333333333333").status == .securityStatusNotSatisfied)
        #expect(try card.send("00200083083132333435363738").status == .success)
        #expect(try card.send("002c028106333333333333").status == .success)
        #expect(try card.send("0020008206333333333333").status == .success)
        #expect(
            try card.send("002c00810c 313131313131 333333333333").status == .authenticationBlocked)
    }

    @Test
    func `losing power clears the verification, and selecting the application again keeps it`()
        throws
    {
        var card = try Self.selected()
        #expect(try card.send("0020008206313233343536").status == .success)
        #expect(try card.send("00a4040006d27600012401").status == .success)
        #expect(try card.send("00200082").status == .success)
        card.powerCycle()
        #expect(try card.send("00200082").status == .unknownInstruction)
    }

    @Test func `arbitrary bytes get a response`() throws {
        var generator = SeededGenerator(seed: 0x0916)
        var card = try Self.selected()
        let instructions = bytes("20242a2c4788a4a5cadac0")
        for _ in 0..<20_000 {
            let command = generator.command(instructions)
            guard case .response(let response) = card.respond(to: command) else { continue }
            #expect(response.count >= 2)
        }
    }

    private static func selected() throws -> OpenPGPApplet {
        var card = OpenPGPApplet()
        try #require(card.send("00a4040006d27600012401").status == .success)
        return card
    }
}
