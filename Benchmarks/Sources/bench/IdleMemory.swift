import Foundation
import LatchkeySimulators

/// Measures the peak memory of idle services.
struct IdleMemory {
    @concurrent func run() async throws -> Findings {
        Findings(goals: [
            .limit("peak memory of idle latchkey-presenced", try await presenced(), "MB", atMost: 15),
            .limit("peak memory of idle latchkey-identity", try await identity(), "MB", atMost: 35),
        ])
    }

    private func presenced() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            try await VirtualFingerprintReader.withRunning { reader in
                let state = try TemporaryDirectory()
                let environment = [
                    "DBUS_SYSTEM_BUS_ADDRESS": reader.busAddress, "LATCHKEY_TCTI": tpm.tcti,
                    "STATE_DIRECTORY": state.path, "TSS2_LOG": "all+NONE",
                ]
                let program = Program.built("latchkey-presenced", environment: environment)
                return try await program.serving(
                    ["--prints", reader.printsDirectory], printsLine: false
                ) { identifier, _ in
                    try Program(name: "gdbus").run([
                        "wait", "--address", reader.busAddress, "--timeout", "30", "org.latchkey.Presence1",
                    ])
                    return try Self.peak(of: identifier)
                }
            }
        }
    }

    private func identity() async throws -> Double {
        try await Program.built("latchkey-identity").serving(["serve", "--demo"], printsLine: true) { identifier, _ in
            try Self.peak(of: identifier)
        }
    }

    /// The peak of a process in megabytes (10⁶ bytes).
    static func peak(of identifier: Int32) throws -> Double {
        let status = try String(contentsOfFile: "/proc/\(identifier)/status", encoding: .utf8)
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") }),
            let kilobytes = line.split(separator: " ").dropFirst().first.flatMap({ Double($0) })
        else { throw Failure(reason: "/proc does not report the memory of the process") }
        return kilobytes * 1024 / 1e6
    }
}
