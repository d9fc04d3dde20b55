import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

@testable import LatchkeyPasskeys

/// A program that has opened the device and sends what it wants.
@Suite(.softwareTPM) struct HostilePacketTests {
    /// The user approves nothing, so no command that uses a key may reach the TPM.
    @Test
    func
        `10,000 random and changed requests cause no signature without a prompt, no crash and no hang`()
        async throws
    {
        let prompt = ScriptedPrompt(answer: { _ in .use(0) })
        try await Rig.with(prompt) { rig in
            _ = try await rig.ask(
                Rig.registration(changes: [6: .map(["hmac-secret": .boolean(true)])]))
            let id = Array(try #require(try rig.store.list().first).id)
            let refusing = ScriptedPrompt(answer: { _ in .no })
            let authenticator = Authenticator(
                PasskeyEngine(
                    keystore: rig.keystore, store: rig.store, prompt: refusing, policy: { .pin },
                    clock: rig.clock.clock))
            let valid = [
                Rig.registration(), Rig.registration(user: "eve", changes: [5: Rig.list(id)]),
                Rig.assertion(),
                Rig.assertion(changes: [3: Rig.list(id)]),
                Rig.assertion(changes: [5: .map(["up": .boolean(false)])]),
                [4], [6, 0xA2, 1, 2, 2, 2], [8], [0x0B], [7],
            ]
            rig.counter.forget()
            var generator = SplitMix(seed: 2121)
            for round in 0..<10_000 {
                var request = valid.randomElement(using: &generator) ?? []
                // Every getInfo reads the TPM, which is slow.
                if request == [4], round > 200 { continue }
                switch Int.random(in: 0..<4, using: &generator) {
                case 0:
                    request = (0..<Int.random(in: 0...80, using: &generator)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    }
                case 1:
                    for _ in 0..<Int.random(in: 1...4, using: &generator) where !request.isEmpty {
                        let index = Int.random(in: 0..<request.count, using: &generator)
                        request[index] = .random(in: 0...255, using: &generator)
                    }
                case 2:
                    request = Array(
                        request.prefix(Int.random(in: 0...request.count, using: &generator)))
                default: break
                }
                if request.first == 4 { request = [5] }
                // A held request ends at the limit.
                let answer = await authenticator.respond(to: request) { status in
                    if status == .userPresenceNeeded { rig.clock.advance(by: .seconds(30)) }
                }
                #expect(!answer.isEmpty)
                rig.clock.advance(by: .seconds(round.isMultiple(of: 50) ? 600 : 1))
            }
            let uses: Set<TPMCommandCode> = [.sign, .hmac, .unseal, .load]
            #expect(rig.counter.all.allSatisfy { !uses.contains($0) }, "\(rig.counter.all)")
            #expect(refusing.pins.isEmpty)
            #expect(try rig.store.list().count == 1)
        }
    }

    @Test func `answers that nobody reads use little memory`() async throws {
        try await Rig.with { rig in
            let sent = Mutex(0)
            let gate = AsyncStream<Void>.makeStream()
            let device = PasskeyHIDDevice(rig.authenticator) { _ in
                for await _ in gate.stream { break }
                sent.withLock { $0 += 1 }
            }
            let requests = 5_000
            for _ in 0..<requests {
                await device.receive(
                    [255, 255, 255, 255, 0x86, 0, 8] + [UInt8](repeating: 5, count: 57))
            }
            gate.continuation.finish()
            await device.close()
            #expect((1...1_100).contains(sent.withLock(\.self)))
        }
    }

    @Test func `10,000 random packets do not stop the device`() async throws {
        let prompt = ScriptedPrompt(answer: { _ in .no })
        try await Rig.with(prompt) { rig in
            let sent = Mutex<[[UInt8]]>([])
            let device = PasskeyHIDDevice(rig.authenticator) { packet in
                sent.withLock { $0.append(packet) }
            }
            var generator = SplitMix(seed: 99)
            rig.counter.forget()
            for _ in 0..<10_000 {
                var packet = (0..<64).map { _ in UInt8.random(in: 0...255, using: &generator) }
                if Bool.random(using: &generator) {
                    packet.replaceSubrange(0..<7, with: [255, 255, 255, 255, 0x86, 0, 8])
                } else if let channel = sent.withLock({ $0.last { $0[4] == 0x86 } }) {
                    packet.replaceSubrange(0..<4, with: channel[15..<19])
                    packet[4] =
                        [0x81, 0x88, 0x90, 0x91, 0x00, 0x01].randomElement(using: &generator)
                        ?? 0x90
                    packet[5] = 0
                }
                await device.receive(packet)
            }
            await poll { sent.withLock { $0.contains { $0[4] == 0x86 } } }
            sent.withLock { $0 = [] }
            await device.receive(
                [255, 255, 255, 255, 0x86, 0, 8] + [UInt8](repeating: 5, count: 57))
            await poll { sent.withLock { $0.contains { $0[4] == 0x86 && $0[7] == 5 } } }
            await device.close()
            #expect(rig.counter.all.allSatisfy { $0 != .sign && $0 != .hmac && $0 != .unseal })
            #expect(rig.prompt.pins.isEmpty)
        }
    }
}
