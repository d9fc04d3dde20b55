import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing
import VirtualSmartCard

/// The tool with a card that other processes use at the same time.
@Suite(
    .virtualYubiKey,
    .enabled(if: FileManager.default.fileExists(atPath: yubicoModule), "needs ykcs11"),
    .timeLimit(.minutes(60)))
struct SharedCardTests {
    private static let pin = CardProfile.defaultPIN

    private struct Made: Decodable {
        let publicKeyJWK: JWK
    }

    private func machine(naming key: String = "") throws -> Machine {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:\(key)?module-path=\(yubicoModule)"
        return machine
    }

    @Test func `pairs of concurrent key creations lose no key`() async throws {
        let card = try VirtualYubiKey.current.card
        let machines = [try machine(), try machine()]
        var (lost, made): ([String], Set<Int>) = ([], [])
        let pairs = Repetitions.count(100, sample: 15)
        for pair in 0..<pairs {
            // The card has space for 11 pairs.
            if pair % 10 == 0 { card.removeKeys() }
            let outcomes = try await withThrowingTaskGroup(of: (Int, Outcome).self) { group in
                for (number, machine) in machines.enumerated() {
                    group.addTask {
                        let outcome = try await machine.run(
                            "key", "create", "--json",
                            pins: [VirtualYubiKey.factoryManagementKey, Self.pin])
                        return (number, outcome)
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let present = Set(card.publicPoints.values)
            for (number, outcome) in outcomes {
                let key = try? JSONDecoder().decode(Made.self, from: Data(outcome.output.utf8))
                    .publicKeyJWK.publicKey()
                guard outcome.status == 0 else {
                    // A reset by the other process can end a command with a recovery text, more
                    // often on a busy machine. No key is lost.
                    #expect([7, 10].contains(outcome.status), "\(outcome.errors)")
                    continue
                }
                made.insert(number)
                if key.map({ present.contains(Array($0.x963Representation)) }) != true {
                    lost.append("pair \(pair)")
                }
            }
        }
        #expect(lost == [])
        #expect(made == [0, 1], "a program creates no key while the other one runs")
    }

    @Test(
        .enabled(if: FileManager.default.fileExists(atPath: openSCModule), "needs OpenSC"),
        .requires(program: "pkcs11-tool"))
    func `concurrent signatures through OpenSC succeed, and pkcs11-tool keeps its login`()
        async throws
    {
        try await VirtualYubiKey.current.provision(.authentication)
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        machine.environment["LATCHKEY_TOKEN"] = "pkcs11:id=%01?module-path=\(openSCModule)"
        let made = try await machine.run("key", "create", "--json", pins: [Self.pin])
        let id = try #require(made.json()["id"]?.string, "\(made.errors)")
        let input = machine.directory.path(of: "digest")
        try Data(repeating: 7, count: 32).write(to: URL(filePath: input))
        let rounds = Repetitions.count(20, sample: 3)
        let failures = try await withThrowingTaskGroup(of: [String].self) { group in
            for _ in 0..<8 {
                group.addTask { [machine] in
                    var failures: [String] = []
                    for _ in 0..<rounds {
                        // On a busy machine, the others can use the card for longer than the tool
                        // waits.
                        var outcome: Outcome
                        var attempts = 0
                        repeat {
                            outcome = try await machine.run(
                                "key", "sign", id, "/dev/null", pins: [Self.pin])
                            attempts += 1
                        } while [7, 10].contains(outcome.status) && attempts < 20
                        if outcome.status != 0 {
                            failures.append("exit \(outcome.status ?? -1): \(outcome.errors)")
                        }
                    }
                    return failures
                }
            }
            group.addTask {
                var failures: [String] = []
                for round in 0..<2 * rounds {
                    let outcome = try await SystemProgram("pkcs11-tool").result(of: [
                        "--module", openSCModule, "--login", "--pin", Self.pin, "--sign",
                        "--mechanism", "ECDSA", "--id", "01", "--input-file", input,
                        "--output-file", "\(input).\(round)",
                    ])
                    if !outcome.isSuccess { failures.append("pkcs11-tool: \(outcome.text)") }
                }
                return failures
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(failures == [])
    }

    @Test(arguments: [SIGTERM, SIGHUP, SIGINT])
    func `a signal while the card waits for a touch leaves the card locked`(_ signal: Int32)
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, touchPolicy: .always)
        let machine = try machine(naming: "id=%01")
        let made = try await machine.run("key", "create", "--json", pins: [Self.pin])
        let id = try #require(made.json()["id"]?.string, "\(made.errors)")
        let observer = try CardObserver()
        yubiKey.card.touch = .wait
        let pins = machine.directory.path(of: "pins")
        try Data("\(Self.pin)\n".utf8).write(to: URL(filePath: pins))
        try #require(chmod(pins, 0o600) == 0)
        let variables = machine.environment.merging(["LATCHKEY_PIN_SOURCE": "file:\(pins)"]) { $1 }
        let tool = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            ["-i"] + variables.map { "\($0)=\($1)" } + [
                Products.latchkey.string, "key", "sign", id, "/dev/null",
            ])
        try await yubiKey.waitUntilTouchIsWanted()
        kill(tool.id, signal)
        if signal == SIGINT {
            // The tool reports the interrupt after at most 3 s, although the module still waits for
            // the card.
            #expect(await tool.wait() == SIGINT)
            yubiKey.card.press()
        } else {
            yubiKey.card.press()
            await tool.wait()
        }
        // pcscd resets the card of a client that has ended when the card answers.
        #expect(try await poll { try !observer.seesVerifiedPIN() })
        yubiKey.card.touch = .auto
        #expect(try !observer.signs(with: .authentication))
    }
}

private let openSCModule = "/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"
private let yubicoModule = "/usr/lib/x86_64-linux-gnu/libykcs11.so"
