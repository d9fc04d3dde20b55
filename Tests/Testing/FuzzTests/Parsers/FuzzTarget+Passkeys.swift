import Dispatch
import Latchkey
import Synchronization

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

    /// A CTAP request to an authenticator without passkeys, of a user who refuses.
    static let ctapRequests = FuzzTarget("ctap-requests") { (input) throws(Contradiction) in
        let effects = RefusingUser()
        let result = Mutex<[UInt8]>([])
        let done = DispatchSemaphore(value: 0)
        Task {
            let answer = await Authenticator(effects).respond(to: input)
            result.withLock { $0 = answer }
            done.signal()
        }
        done.wait()
        let answer = result.withLock(\.self)
        try expect(!answer.isEmpty, "an answer has no status")
        try expect(!effects.usedKey.withLock(\.self), "a key is used before the prompt")
        if answer[0] == 0, answer.count > 1 { try readBack(answer[1...]) }
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

/// An authenticator's surroundings without passkeys, with a user who refuses. Waits end at once.
private final class RefusingUser: PasskeyEffects {
    let usedKey = Mutex(false)
    let clock = PasskeyClock(now: { .zero }, sleep: { _ in })

    func openers() async -> DeviceOpeners? { nil }
    func state() async -> PasskeyState {
        PasskeyState(canVerify: true, methods: .passcode, attemptsLeft: nil, count: 0)
    }
    func passkeys(of rpID: String) throws(CTAPStatus) -> (found: [Passkey], count: Int) { ([], 0) }
    func choose(_ question: PasskeyQuestion, using key: HardwareKey?) async -> PasskeyChoice { .no }
    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice { .no }
    func verification(for question: PasskeyQuestion) -> PresenceSession {
        PresenceSession(NobodyPresent())
    }
    func createKeys(
        withMACKey: Bool, for question: PasskeyQuestion, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> (key: HardwareKey, macKey: SealedSecret?) {
        throw used()
    }
    func sign(
        _ use: PasskeyUse, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> ECDSASignature {
        throw used()
    }
    func add(_ passkey: Passkey) async throws(CTAPStatus) { throw used() }
    func discard(_ key: HardwareKey) async {}
    func wink() async {}

    private func used() -> CTAPStatus {
        usedKey.withLock { $0 = true }
        return .other
    }
}
