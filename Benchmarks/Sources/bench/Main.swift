import Foundation

/// Runs all measurements and prints them with their goals in one table.
@main struct Main {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let isShort = arguments.contains("--short")
        let wanted = zip(arguments, arguments.dropFirst()).filter { $0.0 == "--only" }.map(\.1)
        var findings = Findings()
        func add(_ what: String, _ measure: () async throws -> Findings) async throws {
            guard wanted.isEmpty || wanted.contains(where: { what.contains($0) }) else { return }
            let start = ContinuousClock.now
            findings += try await measure()
            let seconds = ((ContinuousClock.now - start).milliseconds / 1000).text(1)
            FileHandle.standardError.write(Data("measured \(what) in \(seconds) s\n".utf8))
        }
        try await add("TPM commands") { try await CommandCounts().run() }
        try await add("signatures by a TPM") {
            try await TPMSigning(rounds: isShort ? 60 : 300).run()
        }
        try await add("signatures by a token") {
            try await TokenSigning(
                counts: isShort ? [2, 250] : [2, 10, 50, 100, 250], rounds: isShort ? 300 : 3000
            ).run()
        }
        try await add("many records") {
            try await ManyRecords(
                counts: isShort ? [1, 10_000, 100_000] : [1, 10, 100, 1000, 10_000, 100_000],
                rounds: isShort ? 10 : 50
            ).run()
        }
        try await add("logins") {
            try await Authentications(
                rounds: isShort ? 30 : 100, crowds: isShort ? [1, 8] : [1, 2, 4, 8, 16, 32, 64]
            ).run()
        }
        try await add("server") {
            try await ServerLogins(
                sizes: (10_000, isShort ? 100_000 : 1_000_000), logins: isShort ? 300 : 1000
            ).run()
        }
        try await add("idle services") { try await IdleMemory().run() }
        try await add("builds") {
            try await Builds(isComplete: arguments.contains("--builds")).run()
        }
        print(findings.table)
        if let index = arguments.firstIndex(of: "--plots"), index + 1 < arguments.count {
            let folder = URL(filePath: arguments[index + 1])
            for plot in findings.plots {
                try Data(plot.svg.utf8).write(to: folder.appending(path: "\(plot.file).svg"))
            }
        }
    }
}
