import FoundationEssentials
import Glibc
import LatchkeySimulators
import Subprocess
import Testing

extension Machine {
    func run(
        _ arguments: String..., input: String, pins: [String]? = nil, extra: [String: String] = [:]
    ) async throws -> Outcome {
        try await run(arguments, input: input, pins: pins, extra: extra)
    }

    /// Runs `latchkey` with something on stdin.
    func run(
        _ arguments: [String], input: String, pins: [String]? = nil, extra: [String: String] = [:]
    ) async throws -> Outcome {
        var variables = environment.merging(extra) { $1 }
        if let pins {
            let path = directory.path(of: "pins-\(UInt64.random(in: 0 ... .max))")
            try Data(pins.map { "\($0)\n" }.joined().utf8).write(to: URL(filePath: path))
            try #require(chmod(path, 0o600) == 0)
            variables["LATCHKEY_PIN_SOURCE"] = "file:\(path)"
        }
        let result = try await Subprocess.run(
            .path(Products.latchkey), arguments: Arguments(arguments), environment: .custom(Self.keys(variables)),
            input: .string(input), output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
        let status: Int32? = if case .exited(let code) = result.terminationStatus { code } else { nil }
        return Outcome(status: status, output: result.standardOutput, errors: result.standardError)
    }
}
