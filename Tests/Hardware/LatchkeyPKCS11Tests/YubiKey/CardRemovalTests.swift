import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A card that is removed while a module reads it: ykcs11 then reports a token without keys, or one
/// with the serial number 0.
@Suite(.virtualYubiKey(touchTimeout: .milliseconds(600)))
struct CardRemovalTests {
    private static let rounds = Repetitions.count(100, sample: 8)

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a removal at any command of a signature does not report a lost key`(
        through kind: YubiKeyModule.Kind
    ) async throws {
        let scene = try await YubiKeyScene(kind, namesCard: false)
        let yubiKey = scene.yubiKey
        try await yubiKey.eject()
        try await yubiKey.insert()
        let before = yubiKey.card.statistics.commands
        try await scene.expectSignature()
        let commands = yubiKey.card.statistics.commands - before
        try await yubiKey.eject()
        try await yubiKey.insert()
        var codes: [CommonErrorCode: Int] = [:]
        for round in 0..<Self.rounds {
            let command = 1 + round * max(1, commands / Self.rounds) % commands
            yubiKey.card.removeFaults()
            yubiKey.card.inject(CardFault(.removal, atCommand: command))
            let error = await scene.failure()
            if let error { codes[error.code, default: 0] += 1 }
            #expect(
                [nil, .unavailable, .transient].contains(error?.code),
                "removal at command \(command) of \(commands): \(String(describing: error))")
            try await yubiKey.eject()
            try await yubiKey.insert()
        }
        print(
            "\(kind): a signature sends \(commands) commands; \(Self.rounds) removals gave", codes)
        #expect(codes.values.reduce(0, +) > Self.rounds / 2)
        yubiKey.card.removeFaults()
        try await scene.expectSignature()
    }
}
