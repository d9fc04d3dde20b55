import FoundationEssentials

@testable import VirtualSmartCard

extension FuzzTarget {
    /// Commands to the virtual card in sequence, each after its length in two bytes.
    static let cardCommands = FuzzTarget("card-commands") { (input) throws(Contradiction) in
        try send(
            input,
            to: CardProfile(
                firmware: input.first ?? 0 < 0x80 ? Firmware(5, 4, 3) : Firmware(5, 7, 2)))
        _ = ControlRequest(String(decoding: input, as: UTF8.self))
    }

    /// Commands to a virtual card of another manufacturer: a PIV card, or an OpenPGP card.
    static let otherCardCommands = FuzzTarget("other-card-commands") {
        (input) throws(Contradiction) in
        try send(input, to: input.first ?? 0 < 0x80 ? .openPGP() : .thirdPartyPIV())
    }

    private static func send(_ input: [UInt8], to profile: CardProfile) throws(Contradiction) {
        guard let authority = try? authority.get() else {
            throw Contradiction(description: "there is no card")
        }
        let environment = CardEnvironment(
            now: { Date(timeIntervalSinceReferenceDate: 800_000_000) },
            randomBytes: { [UInt8](repeating: 0x5A, count: $0) })
        var applet = profile.makeApplet(authority: authority, environment: environment)
        for command in pieces(of: Array(input.dropFirst())).prefix(64) {
            let response =
                switch applet.respond(to: command) {
                case .response(let response): response
                case .touchRequired: applet.finish(touched: command.count % 2 == 0)
                }
            try expect(
                (2...65_538).contains(response.count), "a response of \(response.count) bytes")
        }
    }

    /// Shared by all cards, since creating it is slow.
    private static let authority = Result { try AttestationAuthority() }
}
