import Foundation
import LatchkeySimulators

/// Measures commands that use no hardware, in turn with the smallest program.
struct LocalCommands {
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        let directory = try TemporaryDirectory()
        let latchkey = Program.built("latchkey", environment: ["XDG_CONFIG_HOME": directory.path(of: "config")])
        let store = ["--store", directory.path(of: "store")]
        try await SoftwareTPM.withRunning { tpm in
            let arguments = ["key", "create", "--policy", "none", "--tcti", tpm.tcti]
            try latchkey.run(arguments + store)
        }
        var commands = [
            Command(name: "/bin/true", program: Program(name: "/bin/true"), arguments: []),
            Command(
                name: "latchkey --version", program: latchkey, arguments: ["--version"], milliseconds: 5, megabytes: 12),
            Command(
                name: "latchkey status", program: latchkey, arguments: ["status"] + store, milliseconds: 8,
                megabytes: 16),
            Command(
                name: "latchkey key list", program: latchkey, arguments: ["key", "list"] + store, milliseconds: 8,
                megabytes: 16),
        ]
        for round in -1..<rounds {
            for index in commands.indices {
                let (time, bytes) = try commands[index].program.measure(commands[index].arguments)
                guard round >= 0 else { continue }
                commands[index].samples.add(time)
                commands[index].peak = max(commands[index].peak, bytes)
            }
        }
        var table = Table("one process for one command without hardware, \(rounds) rounds in turn")
        for command in commands {
            table.add("\(command.name) (\(Decimals.format(Double(command.peak) / 1e6, 1)) MB)", command.samples)
        }
        return Findings(
            goals: commands.flatMap { $0.goals(over: commands[0].samples) } + [try Self.installedSize(directory)],
            tables: [table])
    }

    /// The size of the program as packages install it.
    private static func installedSize(_ directory: TemporaryDirectory) throws -> Goal {
        let stripped = directory.path(of: "latchkey")
        try Program(name: "strip").run(["-o", stripped, Program.built("latchkey").name])
        let bytes = try FileManager.default.attributesOfItem(atPath: stripped)[.size] as? Int ?? 0
        return .limit("installed size of latchkey", Double(bytes) / 1e6, "MB", atMost: 15)
    }

    private struct Command {
        let name: String
        let program: Program
        let arguments: [String]
        /// The goals; nil for the floor.
        var milliseconds: Double?
        var megabytes: Double?
        var samples = Samples()
        var peak = 0

        func goals(over floor: Samples) -> [Goal] {
            guard let milliseconds, let megabytes else { return [] }
            return [
                .limit(
                    name, samples.median.milliseconds, "ms", atMost: milliseconds,
                    floor: "\(floor.median.text) /bin/true"),
                .limit("peak memory of \(name)", Double(peak) / 1e6, "MB", atMost: megabytes),
            ]
        }
    }
}
