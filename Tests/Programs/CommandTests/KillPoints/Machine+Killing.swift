import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import TPM2
import TPM2TCTI
import Testing

extension Machine {
    /// A copy of the machine and its stored data, with the same environment otherwise.
    func copy() throws -> Machine {
        var copy = try Machine(tcti: nil)
        let own = copy.environment.filter {
            ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].contains($0.key)
        }
        copy.environment = environment.merging(own) { $1 }
        let folder = "data/latchkey"
        if FileManager.default.fileExists(atPath: directory.path(of: folder)) {
            try FileManager.default.copyItem(
                atPath: directory.path(of: folder), toPath: copy.directory.path(of: folder))
        }
        return copy
    }

    /// Runs the tool and requires success.
    @discardableResult
    func require(
        _ arguments: String..., pins: [String]? = nil, input: String = "",
        extra: [String: String] = [:],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> Outcome {
        let outcome = try await run(arguments, pins: pins, input: input, extra: extra)
        try #require(
            outcome.status == 0, "\(arguments.joined(separator: " ")): \(outcome)",
            sourceLocation: sourceLocation)
        return outcome
    }

    /// Kills a command at its kill points, each time on a new machine.
    ///
    /// - Parameters:
    ///   - change: The change that the command makes.
    ///   - prepare: Creates the machine and returns more arguments for the command; nil for a copy
    ///     of this machine.
    ///   - check: Checks the state after the command. The TPM has no loaded objects of it, as
    ///     behind a resource manager.
    func cutShort(
        _ change: StateChange, by arguments: String..., pins: [String]? = nil, input: String = "",
        prepare: (() async throws -> (machine: Machine, more: [String]))? = nil,
        check: (Machine, KillPoints.Run) async throws -> Void
    ) async throws {
        let tcti = environment["LATCHKEY_TCTI"]
        try await KillPoints.test(change) { _ -> (machine: Machine, more: [String]) in
            guard let prepare else { return (try copy(), []) }
            return try await prepare()
        } change: { prepared, environment in
            let outcome = try await prepared.machine.run(
                arguments + prepared.more, pins: pins, input: input, extra: environment)
            try #require([nil, 0].contains(outcome.status), "\(outcome)")
            return outcome.status == 0
        } check: { prepared, life in
            if let tcti { try Self.flush(tcti) }
            try await check(prepared.machine, life)
        }
    }

    /// The number of the TPM's NV indices for revocable keys, of all machines that use it.
    func revocableCount() async throws -> Int {
        let listed = try await program(
            "tpm2_getcap", ["handles-nv-index"], environment: ["TPM2TOOLS_TCTI": tcti])
        return listed.split(separator: "\n").count { $0.lowercased().contains("0x1804d") }
    }

    /// Flushes the objects and sessions of a killed program, as a resource manager does when a
    /// connection ends.
    private static func flush(_ tcti: String) throws {
        let connection = try TCTIConnection(tcti)
        defer { connection.close() }
        let tpm = TPM(ResubmittingTransport(connection))
        for first in [TPMHandle.transientFirst, .loadedSessionFirst] {
            for handle in try tpm.handles(from: first) { try tpm.execute(FlushContext(handle)) }
        }
    }
}
