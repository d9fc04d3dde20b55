import Foundation
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Programs and pages that attack `latchkey-passkeys`, as a process, with packets of the relay. Two
/// programs with the device differ in their channels only, and each can use the other one's.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct PasskeyAttackTests {
    @Test func `a program that ends the browser's request does not get its window`() async throws {
        try await withWindows { windows, relay in
            let browser = try await PasskeyRelay.openChannel(relay)
            let attacker = try await PasskeyRelay.openChannel(relay)
            PasskeyRelay.send(Self.creation(at: "bank.example"), 0x10, on: browser, relay)
            #expect(await poll { windows.texts.count == 1 })
            // INIT on the browser's channel, which every program can read.
            PasskeyRelay.send([1, 2, 3, 4, 5, 6, 7, 8], 0x06, on: browser, relay)
            PasskeyRelay.send(Self.creation(at: "bank.example"), 0x10, on: attacker, relay)
            #expect(await Self.status(on: attacker, relay) == 0x27)
            #expect(windows.texts.count == 1)
            #expect(windows.open == 0)
        }
    }

    @Test func `the end of the last program with the device closes its window`() async throws {
        try await withWindows { windows, relay in
            let first = try await PasskeyRelay.openChannel(relay)
            PasskeyRelay.send(Self.creation(at: "bank.example"), 0x10, on: first, relay)
            #expect(await poll { windows.texts.count == 1 })
            // The relay's message after UHID_CLOSE.
            #expect(Glibc.send(relay, [0], 1, Int32(MSG_NOSIGNAL)) == 1)
            #expect(await poll { windows.open == 0 })
            let second = try await PasskeyRelay.openChannel(relay)
            PasskeyRelay.send([0x0B], 0x10, on: second, relay)
            #expect(await poll { windows.open == 1 })
        }
    }

    @Test func `a page that names sixteen sites gets six windows`() async throws {
        try await withWindows { windows, relay in
            let page = try await PasskeyRelay.openChannel(relay)
            for number in 0..<16 {
                PasskeyRelay.send(Self.creation(at: "s\(number).evil.org"), 0x10, on: page, relay)
                let status: UInt8 = number < 6 ? 0x2D : 0x2F
                if number < 6 {
                    #expect(await poll { windows.texts.count == number + 1 })
                    PasskeyRelay.send([], 0x11, on: page, relay)
                }
                #expect(await Self.status(on: page, relay) == status, "\(number)")
            }
            #expect(windows.texts.count == 6)
        }
    }

    @Test func `a request for an unknown passkey does not make the device busy`() async throws {
        try await withWindows { windows, relay in
            let page = try await PasskeyRelay.openChannel(relay)
            let other = try await PasskeyRelay.openChannel(relay)
            let login: [CBORKey: CBORValue] = [
                1: .text("evil.org"), 2: .bytes([UInt8](repeating: 1, count: 32)),
            ]
            for _ in 1...3 {
                PasskeyRelay.send([2] + CBORValue.map(login).encoded, 0x10, on: page, relay)
                // KEEPALIVE: the user is needed.
                let held = await PasskeyRelay.packet(from: relay) {
                    $0.starts(with: page + [0xBB, 0, 1, 2])
                }
                #expect(!held.isEmpty)
                PasskeyRelay.send([4], 0x10, on: other, relay)
                #expect(await Self.status(on: page, relay) == 0x2F)
                #expect(await Self.status(on: other, relay) == 0)
            }
            #expect(windows.texts.isEmpty)
        }
    }

    @Test func `a site's name is no sentence of the window`() async throws {
        try await withWindows { windows, relay in
            let channel = try await PasskeyRelay.openChannel(relay)
            for name in ["bank.example. The PIN is wrong", "a\u{202E}b", "a\u{200B}b", "a\nb"] {
                PasskeyRelay.send(Self.creation(at: name), 0x10, on: channel, relay)
                #expect(await Self.status(on: channel, relay) == 0x02, "\(name)")
            }
            PasskeyRelay.send(
                Self.creation(at: "ssh:a” asks nothing"), 0x10, on: channel, relay)
            #expect(await poll { windows.texts.count == 1 })
            #expect(
                windows.texts == [
                    "A program asks to create a passkey on this computer for “ssh:a' asks nothing” "
                        + "as “ada'. Choose 'Use' now”."
                ])
        }
    }

    private static func creation(at site: String) -> [UInt8] {
        let request: [CBORKey: CBORValue] = [
            1: .bytes([UInt8](repeating: 1, count: 32)), 2: .map(["id": .text(site)]),
            3: .map(["id": .bytes([1]), "name": .text("ada”. Choose “Use” now")]),
            4: .array([.map(["alg": .integer(-7), "type": .text("public-key")])]),
        ]
        return [1] + CBORValue.map(request).encoded
    }

    /// The status of the next answer to a CTAP request.
    private static func status(on channel: [UInt8], _ relay: Int32) async -> UInt8? {
        let packet = await PasskeyRelay.packet(from: relay) { $0.starts(with: channel + [0x90]) }
        return packet.isEmpty ? nil : packet[7]
    }

    /// Runs `body` with a service whose windows stay open until the service closes them.
    private func withWindows(_ body: (Windows, Int32) async throws -> Void) async throws {
        let windows = try Windows()
        try await PasskeyRelay.withService(extra: ["PINENTRY_PROGRAM": windows.program]) {
            _, relay in
            try await body(windows, relay)
        }
    }
}

/// A pinentry program whose windows wait.
private final class Windows: Sendable {
    let program: String
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        program = try directory.makeScript(
            "pinentry",
            """
            #!/bin/sh
            echo OK
            while IFS= read -r line; do
                case $line in
                SETDESC*) text=${line#SETDESC }; echo OK ;;
                "GETINFO flavor") printf 'D gtk2\\nOK\\n' ;;
                CONFIRM) printf '%s %s\\n' "$$" "$text" >>"$0.log"; exec sleep 100000 ;;
                *) echo OK ;;
                esac
            done

            """)
    }

    private var lines: [(process: Int32, text: String)] {
        let log = (try? String(contentsOfFile: "\(program).log", encoding: .utf8)) ?? ""
        return log.split(separator: "\n").map { line in
            let words = line.split(separator: " ", maxSplits: 1)
            return (Int32(words[0]) ?? 0, String(words.last ?? ""))
        }
    }

    /// The texts of all windows.
    var texts: [String] { lines.map(\.text) }
    /// The number of windows that are open.
    var open: Int { lines.count { kill($0.process, 0) == 0 } }
}
