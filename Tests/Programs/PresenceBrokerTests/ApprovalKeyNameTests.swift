import Foundation
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `latchkey-presenced --print-name`.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "tpm2_readpublic"),
    .softwareTPM, .virtualFinger)
struct ApprovalKeyNameTests {
    private func printName(at bus: String) async throws -> (
        status: Int32, output: String, errors: String
    ) {
        let process = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            ["DBUS_SYSTEM_BUS_ADDRESS=\(bus)", BrokerScene.program.path, "--print-name"])
        let written = await process.remainder()
        return (await process.wait(), written.output, written.errors)
    }

    @Test func `it prints the Name that tpm2-tools shows`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let handle = try #require(try await scene.client.terms(for: .pin).authorityHandle)
            let oracle = try RunningProgram(
                URL(filePath: "/usr/bin/tpm2_readpublic"),
                ["-T", scene.tpm.tcti, "-c", "0x\(String(handle, radix: 16))"])
            let shown = await oracle.remainder().output
            let name = try await printName(at: scene.reader.busAddress)
            #expect(name.status == 0, "\(name.errors)")
            #expect(
                name.output.utf8.count == 69 && name.output.hasPrefix("000b")
                    && name.output.hasSuffix("\n"))
            #expect(shown.split(separator: "\n").contains("name: \(name.output.dropLast())"))
        }
    }

    @Test func `without a running service it exits with 7 and prints nothing`() async throws {
        let name = try await printName(at: VirtualFingerprintReader.current.busAddress)
        #expect(name.status == 7)
        #expect(name.output.isEmpty)
        #expect(name.errors.contains("latchkey-presenced"))
    }
}
