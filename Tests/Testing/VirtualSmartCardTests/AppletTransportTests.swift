import Testing
import VirtualSmartCard

/// Chained commands, long responses, and invalid bytes.
struct AppletTransportTests {
    @Test func `a long object is written by chaining and read by GET RESPONSE`() throws {
        var card = try TestCard()
        try card.authenticate()
        let content = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
        let body = bytes("5c035fc10a") + field(0x53, content)
        for start in stride(from: 0, to: body.count, by: 200) {
            let piece = body[start..<min(start + 200, body.count)]
            let isLast = start + 200 >= body.count
            let sent = try card.send(
                [isLast ? 0x00 : 0x10, 0xDB, 0x3F, 0xFF, UInt8(piece.count)] + piece)
            #expect(sent.status == .success)
        }
        var part = try card.send("00cb3fff055c035fc10a00")
        #expect(part.data.count == 256)
        #expect(part.status.rawValue == 0x6100)
        var object = part.data
        while part.status.rawValue >> 8 == 0x61 {
            part = try card.send("00c0000000")
            object += part.data
        }
        #expect(part.status == .success)
        #expect(object == field(0x53, content))
        #expect(try card.send("00c0000000").status == .conditionsNotSatisfied)
    }

    @Test func `the status word tells how many bytes remain`() throws {
        var card = try TestCard()
        let short = try card.send("00cb3fff035c017e10")
        #expect(short.data.count == 16)
        #expect(short.status.rawValue == 0x6104)
        #expect(try card.send("00c0000004").status == .success)
    }

    @Test func `another command drops the rest of a response`() throws {
        var card = try TestCard()
        _ = try card.send("00cb3fff035c017e10")
        #expect(try card.send("00fd000000").data == [5, 4, 3])
        #expect(try card.send("00c0000000").status == .conditionsNotSatisfied)
    }

    @Test func `another instruction discards a chain`() throws {
        var card = try TestCard()
        #expect(try card.send("10200080 04 31323334").status == .success)
        #expect(try card.send("00fd000000").data == [5, 4, 3])
        #expect(try card.send("00200080 04 3536ffff").status == .incorrectData)
        #expect(try card.send("10200080 04 31323334").status == .success)
        #expect(try card.send("00200080 04 3536ffff").status == .success)
    }

    @Test func `an endless chain is refused`() throws {
        var card = try TestCard()
        let piece = [0x10, 0xDB, 0x3F, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 255)
        for _ in 0..<16 { #expect(try card.send(piece).status == .success) }
        #expect(try card.send(piece).status == .wrongLength)
    }

    @Test(arguments: [
        ("80fd000000", StatusWord.unknownClass), ("00990000", .unknownInstruction),
        ("00a4040005a000000309", .notFound),
        ("00a4000005a000000308", .notFound), ("00a4040004a0000003", .notFound),
        ("00cb000000", .incorrectParameters),
        ("00cb3fff025c05", .incorrectData), ("00cb3fff035c027e", .incorrectData),
        ("00cb3fff025c84", .incorrectData),
        ("00cb3fff065c845fc10a00", .incorrectData), ("00cb3fff055c035fc10a", .notFound),
        ("00870000 02 7c05", .incorrectData), ("008711ff 02 7c00", .incorrectParameters),
        ("0087119a 02 7c00", .referenceNotFound), ("00f7009a", .referenceNotFound),
        ("00f700aa", .incorrectParameters),
        ("00f99a00", .referenceNotFound), ("0047009a 05 ac03800111", .securityStatusNotSatisfied),
        ("00010000", .unknownInstruction), ("00fb0000", .conditionsNotSatisfied),
    ]) func `an invalid command gets its status word`(_ digits: String, _ status: StatusWord) throws
    {
        var card = try TestCard()
        #expect(try card.send(digits).status == status)
    }

    @Test func `nothing works before an application is selected`() throws {
        var applet = PIVApplet(authority: try TestCard.authority.get())
        #expect(
            applet.respond(to: bytes("00fd000000"))
                == .response(StatusWord.unknownInstruction.bytes))
    }

    @Test func `arbitrary bytes get a response`() throws {
        var generator = SeededGenerator(seed: 0x1A7C)
        var card = try TestCard()
        try card.authenticate()
        try card.generate(0x9A)
        let instructions = bytes("202447878ca4c0cbdbf6f7f8f9fafbfdfeff01")
        for _ in 0..<20_000 {
            let command = generator.command(instructions)
            switch card.applet.respond(to: command) {
            case .response(let response): #expect(response.count >= 2)
            case .touchRequired: #expect(card.applet.finish(touched: true).count >= 2)
            }
        }
    }

    @Test func `any change to a valid command gets a response`() throws {
        var generator = SeededGenerator(seed: 0xCA4D)
        let good = [
            "00a4040005a000000308", "0020008008313233343536ffff", "0087039b04 7c028100",
            "00cb3fff055c035fc10500",
            "0047009a0bac09800111aa0102ab0101",
            "0087119a267c248200812055" + String(repeating: "55", count: 31),
            "00db3fff09 5c035fc105 5302 0102",
            "00fe119a22 0620" + String(repeating: "33", count: 32),
            "00fffffe1b039b18" + String(repeating: "44", count: 24), "00f7009a00", "00f99a0000",
        ].map(bytes)
        for _ in 0..<200 {
            var card = try TestCard()
            try card.authenticate()
            for _ in 0..<20 {
                var command = good.randomElement(using: &generator) ?? []
                for _ in 0..<Int.random(in: 0...3, using: &generator) {
                    let index = Int.random(in: 0..<command.count, using: &generator)
                    command[index] = UInt8.random(in: .min ... .max, using: &generator)
                }
                if case .touchRequired = card.applet.respond(to: command) {
                    _ = card.applet.finish(touched: false)
                }
            }
            #expect(try card.send("00a4040005a000000308").status == .success)
        }
    }
}

/// Reproducible random numbers (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension SeededGenerator {
    /// 0 to 40 arbitrary bytes; every second time, if there are at least 5, a command with one of
    /// the instructions and the right length.
    mutating func command(_ instructions: [UInt8]) -> [UInt8] {
        var command = (0..<Int.random(in: 0...40, using: &self)).map { _ in
            UInt8.random(in: .min ... .max, using: &self)
        }
        if command.count >= 5, Bool.random(using: &self) {
            command[0] = Bool.random(using: &self) ? 0 : 0x10
            command[1] = instructions.randomElement(using: &self) ?? 0
            command[4] = UInt8(command.count - 5)
        }
        return command
    }
}
