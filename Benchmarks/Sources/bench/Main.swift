import Foundation

/// Runs all measurements and prints them with their floors and goals.
@main struct Main {
    static func main() async throws {
        let isShort = CommandLine.arguments.contains("--short")
        // Each `--only TEXT` selects the measurements whose names contain the text.
        let wanted = zip(CommandLine.arguments, CommandLine.arguments.dropFirst()).filter {
            $0.0 == "--only"
        }.map(\.1)
        var findings = Findings()
        func add(_ what: String, _ measure: () async throws -> Findings) async throws {
            guard wanted.isEmpty || wanted.contains(where: { what.contains($0) }) else { return }
            let start = ContinuousClock.now
            findings += try await measure()
            let seconds = Decimals.format((ContinuousClock.now - start).milliseconds / 1000, 1)
            FileHandle.standardError.write(Data("measured \(what) in \(seconds) s\n".utf8))
        }
        try await add("TPM commands") { try await CommandCounts().run() }
        try await add("signatures by a TPM") {
            try await TPMSigning(rounds: isShort ? 60 : 300).run()
        }
        try await add("processes") { try await SigningProcesses(rounds: isShort ? 15 : 60).run() }
        try await add("local commands") { try await LocalCommands(rounds: isShort ? 15 : 60).run() }
        try await add("installed size") { try await InstalledSize.run() }
        try await add("attestation") {
            try await AttestationEnrolment(rounds: isShort ? 10 : 50).run()
        }
        try await add("idle services") { try await IdleMemory().run() }
        try await add("signatures by a token") {
            try await TokenCrowding(
                counts: isShort ? [2, 250] : [2, 10, 50, 100, 250], rounds: isShort ? 300 : 3000
            )
            .run()
        }
        try await add("logins") {
            try await Authentications(
                rounds: isShort ? 30 : 100, crowds: isShort ? [1, 8] : [1, 2, 4, 8, 16, 32, 64]
            ).run()
        }
        try await add("many records") {
            try await ManyRecords(
                counts: isShort ? [1, 10_000, 100_000] : [1, 10, 100, 1000, 10_000, 100_000],
                rounds: isShort ? 10 : 50
            ).run()
        }
        if CommandLine.arguments.contains("--fleet") || !wanted.isEmpty {
            try await add("fleet") {
                try await FleetLogins(
                    sizes: (10_000, isShort ? 100_000 : 1_000_000), logins: isShort ? 300 : 1000
                )
                .run()
            }
        }
        try await add("CI") { ContinuousIntegration().findings }
        if CommandLine.arguments.contains("--builds") {
            try await add("builds") { try Builds().run() }
        }
        findings.show()
        if let index = CommandLine.arguments.firstIndex(of: "--plots"),
            index + 1 < CommandLine.arguments.count
        {
            let (page, folder) = (ResultsPage(findings), CommandLine.arguments[index + 1])
            if wanted.isEmpty { try page.write(to: folder) } else { try page.update(in: folder) }
        }
    }
}
