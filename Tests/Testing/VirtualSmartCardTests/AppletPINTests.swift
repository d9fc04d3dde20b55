import Testing
import VirtualSmartCard

/// The PIN, the PUK and their counters.
struct AppletPINTests {
    @Test func `wrong PINs are counted, and the third blocks`() throws {
        var card = try TestCard()
        #expect(try card.send("00200080").status == .wrongSecret(attemptsLeft: 3))
        #expect(try card.verifyPIN("111111") == .wrongSecret(attemptsLeft: 2))
        #expect(try card.verifyPIN("111111") == .wrongSecret(attemptsLeft: 1))
        #expect(try card.verifyPIN("111111") == .authenticationBlocked)
        #expect(try card.verifyPIN() == .authenticationBlocked)
        #expect(try card.send("00200080").status == .authenticationBlocked)
    }

    @Test func `the right PIN restores all attempts`() throws {
        var card = try TestCard()
        #expect(try card.verifyPIN("111111") == .wrongSecret(attemptsLeft: 2))
        #expect(try card.verifyPIN() == .success)
        #expect(try card.send("00200080").status == .success)
        #expect(try card.send("0020ff80").status == .success)
        #expect(try card.send("00200080").status == .wrongSecret(attemptsLeft: 3))
    }

    @Test func `a PIN of another length is not counted as an attempt`() throws {
        var card = try TestCard()
        #expect(try card.send("0020008006313233343536").status == .incorrectData)
        #expect(try card.send("00200080").status == .wrongSecret(attemptsLeft: 3))
    }

    @Test func `selecting another application or losing power clears the PIN`() throws {
        var card = try TestCard()
        #expect(try card.verifyPIN() == .success)
        _ = try card.send("00a4040005a000000308")
        #expect(try card.send("00200080").status == .success, "it was selected already")
        _ = try card.send("00a4040008a000000527200101")
        _ = try card.send("00a4040005a000000308")
        #expect(try card.send("00200080").status == .wrongSecret(attemptsLeft: 3))
        #expect(try card.verifyPIN() == .success)
        card.applet.powerCycle()
        #expect(try card.send("00200080").status == .unknownInstruction)
    }

    @Test func `the PIN can be changed, but not to a short one`() throws {
        var card = try TestCard()
        #expect(
            try card.send(0x24, 0, 0x80, padded("123456") + padded("12345")).status
                == .incorrectData)
        #expect(
            try card.send(0x24, 0, 0x80, padded("123456") + padded("654321")).status == .success)
        #expect(try card.verifyPIN() == .wrongSecret(attemptsLeft: 2))
        #expect(try card.verifyPIN("654321") == .success)
        #expect(
            try card.send(0x24, 0, 0x80, padded("123456") + padded("777777")).status
                == .wrongSecret(attemptsLeft: 2))
    }

    @Test func `the PUK unblocks the PIN, and its attempts are counted`() throws {
        var card = try TestCard()
        for _ in 0..<3 { _ = try card.verifyPIN("111111") }
        let unblock = padded("12345678") + padded("222222")
        #expect(
            try card.send(0x2C, 0, 0x80, padded("00000000") + padded("222222")).status
                == .wrongSecret(attemptsLeft: 2))
        #expect(try card.send(0x2C, 0, 0x80, unblock).status == .success)
        #expect(try card.verifyPIN("222222") == .success)
        for _ in 0..<3 { _ = try card.send(0x24, 0, 0x81, padded("00000000") + padded("87654321")) }
        #expect(try card.send(0x2C, 0, 0x80, unblock).status == .authenticationBlocked)
    }

    @Test func `the limits of attempts can be changed`() throws {
        var card = try TestCard()
        #expect(try card.send("00fa0508").status == .securityStatusNotSatisfied)
        try card.authenticate()
        #expect(try card.verifyPIN() == .success)
        #expect(try card.send("00fa0008").status == .incorrectParameters)
        #expect(try card.send("00fa0508").status == .success)
        #expect(try card.send("00f70080").data == bytes("0101ff 050101 06020505"))
        #expect(try card.send("00f70081").data == bytes("0101ff 050101 06020808"))
    }

    @Test func `a reset requires both to be blocked, and keeps only the attestation key`() throws {
        var card = try TestCard()
        try card.authenticate()
        try card.generate(0x9A)
        #expect(try card.send("00fb0000").status == .conditionsNotSatisfied)
        for _ in 0..<3 { _ = try card.verifyPIN("111111") }
        #expect(try card.send("00fb0000").status == .conditionsNotSatisfied)
        for _ in 0..<3 { _ = try card.send(0x24, 0, 0x81, padded("00000000") + padded("87654321")) }
        #expect(try card.send("00fb0000").status == .success)
        #expect(try card.verifyPIN() == .success)
        #expect(try card.send("00f7009a").status == .referenceNotFound)
        #expect(try card.send("00f700f9").status == .success)
        #expect(try card.send("0047009a 05 ac03800111").status == .securityStatusNotSatisfied)
    }
}
