import Latchkey

@testable import LatchkeyPasskeys

/// The parsers of packets and requests that any program with the HID device sends.
extension FuzzTarget {
    /// Packets of CTAPHID, 64 bytes each, after a channel was opened.
    static let hidPackets = FuzzTarget("hid-packets") { (input) throws(Contradiction) in
        var device = CTAPHIDDevice(newChannel: { 0x0102_0304 })
        var running: UInt64?
        var now = Duration.zero
        let opening: [UInt8] = [255, 255, 255, 255, 0x86, 0, 8] + [UInt8](repeating: 0, count: 57)
        for packet in [opening]
            + stride(from: 0, to: input.count, by: 64).map({ Array(input[$0...].prefix(64)) })
        {
            now += .milliseconds(60)
            for action in device.receive(packet, at: now) + device.tick(at: now) {
                switch action {
                case .send(let packet):
                    try expect(packet.count == 64, "a packet has another length")
                case .perform(let transaction, let request):
                    try expect(running == nil, "two transactions run")
                    try expect(
                        (1...CTAPHIDDevice.maximumRequestBytes).contains(request.count),
                        "a request is too long")
                    running = transaction
                case .cancel(let transaction):
                    try expect(transaction == running, "another transaction is cancelled")
                    _ = device.finish(transaction, with: [0x2D])
                    running = nil
                case .wink: break
                }
            }
        }
    }

    /// A CTAP request, up to the first step that needs hardware, the store or the user.
    static let ctapRequests = FuzzTarget("ctap-requests") { (input) throws(Contradiction) in
        var authenticator = Authenticator()
        switch authenticator.begin(input, at: .zero) {
        case .answer(let answer):
            try expect(!answer.isEmpty, "an answer has no status")
            if answer[0] == 0, answer.count > 1 { try readBack(answer[1...]) }
        case .find:
            let answer = authenticator.resume(.found([], count: 0), at: .zero)
            if case .use = answer {
                throw Contradiction(description: "a key is used without a passkey")
            }
        case .use, .create, .store:
            throw Contradiction(description: "a key is used before the prompt")
        case .inspect, .ask, .hold: break
        }
        if let value = try? CBORReader.read(input[...], limits: .ctap) {
            try readBack(value.encoded[...], as: value)
        }
    }

    private static func readBack(_ bytes: ArraySlice<UInt8>, as value: CBORValue? = nil)
        throws(Contradiction)
    {
        guard let read = try? CBORReader.read(bytes, limits: .ctap) else {
            throw Contradiction(description: "an answer cannot be read back")
        }
        try expect(value == nil || read == value, "another value is read back")
        try expect(read.encoded == Array(bytes), "an answer is not canonical")
    }
}
