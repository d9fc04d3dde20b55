import Foundation
import LatchkeySimulators

/// Measures commands that use no hardware, in turn with the smallest program.
struct LocalCommands {
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        let directory = try TemporaryDirectory()
        let latchkey = Program.built(
            "latchkey", environment: ["XDG_CONFIG_HOME": directory.path(of: "config")])
        let store = ["--store", directory.path(of: "store")]
        try await SoftwareTPM.withRunning { tpm in
            let arguments = ["key", "create", "--policy", "none", "--tcti", tpm.tcti]
            try latchkey.run(arguments + store)
        }
        let goals: [(arguments: [String], milliseconds: Double, megabytes: Double)] = [
            (["--version"], 5, 12), (["status"], 8, 16), (["key", "list"], 8, 16),
        ]
        var processes = [MeasuredProcess.floor]
        for (arguments, _, _) in goals {
            let options = arguments == ["--version"] ? [] : store
            processes.append(
                MeasuredProcess(
                    "latchkey \(arguments.joined(separator: " "))", latchkey, arguments + options))
        }
        try MeasuredProcess.measure(&processes, rounds: rounds)
        let floor = "\(processes[0].samples.median.text) /bin/true"
        var findings = Findings(tables: [
            MeasuredProcess.table(
                "one process for one command without hardware, \(rounds) rounds in turn", processes)
        ])
        for (process, goal) in zip(processes.dropFirst(), goals) {
            findings.goals += [
                .limit(
                    process.name, process.samples.median.milliseconds, "ms",
                    atMost: goal.milliseconds, floor: floor),
                process.memoryGoal(atMost: goal.megabytes),
            ]
        }
        return findings
    }
}
