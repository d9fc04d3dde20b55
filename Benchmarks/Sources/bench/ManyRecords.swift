import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import TPM2

/// Measures a growing store of credentials: finding one by a tag or a claim, storing another, and
/// opening the store.
struct ManyRecords {
    let counts: [Int]
    let rounds: Int

    /// The measurements at one size.
    private struct Stage {
        let count: Int
        var byTag = Samples()
        var byClaim = Samples()
        var storing = Samples()
        var opening = Samples()
        var bytes = 0
    }

    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let counter = CountingTransport.Counter()
            var stages: [Stage] = []
            var filled = 0
            for count in counts {
                try await Shelf(tpm, directory, counter).fill(from: filled, to: count)
                filled = count
                stages.append(try await measure(count, tpm, directory, counter))
            }
            let empty = try TemporaryDirectory()
            _ = try await Shelf(tpm, empty, counter)
            _ = try Credential.find { $0.tags["n"] == "0" }
            let most = counts.last ?? 0
            let memory = (
                full: try Self.memory(of: directory, tpm, "\(most / 2)"),
                empty: try Self.memory(of: empty, tpm, "0")
            )
            return findings(stages, memory)
        }
    }

    private func measure(
        _ count: Int, _ tpm: SoftwareTPM, _ directory: TemporaryDirectory,
        _ counter: CountingTransport.Counter
    ) async throws -> Stage {
        var stage = Stage(count: count)
        stage.bytes = try Self.bytes(of: directory)
        for round in 0..<rounds {
            let wanted = round * 7919 % count
            let start = ContinuousClock.now
            _ = try await Shelf(tpm, directory, counter)
            guard try Credential.with(id: "c\(wanted)") != nil else {
                throw Failure(reason: "a credential is missing")
            }
            stage.opening.add(ContinuousClock.now - start)
        }
        let shelf = try await Shelf(tpm, directory, counter)
        try await CredentialStore.bootstrap(shelf.store)
        _ = counter.take()
        for round in 0..<rounds {
            let wanted = round * 7919 % count
            let byTag = try stage.byTag.measure {
                try Credential.find { $0.tags["n"] == "\(wanted)" }
            }
            let byClaim = try stage.byClaim.measure {
                try Credential.find { $0.subject == "user-\(wanted)" }
            }
            guard [byTag, byClaim].allSatisfy({ $0.map(\.id) == ["c\(wanted)"] }) else {
                throw Failure(reason: "\(wanted) of \(count) is not found")
            }
        }
        guard counter.take().isEmpty else { throw Failure(reason: "a search went to the hardware") }
        for round in 0..<rounds {
            let token = try Shelf.token("extra-\(count)-\(round)", subject: "nobody")
            let credential = try stage.storing.measure {
                try Credential.store(token: token, tags: ["n": "none"])
            }
            try credential.remove()
        }
        return stage
    }

    private func findings(_ stages: [Stage], _ memory: (full: Int, empty: Int)) -> Findings {
        guard let last = stages.last, let small = stages.dropLast().last, let first = stages.first
        else {
            return Findings()
        }
        let name = "\(last.count) records"
        let perRecord = (
            large: Double(last.bytes) / Double(last.count),
            small: Double(small.bytes) / Double(small.count)
        )
        let growth = perRecord.large / perRecord.small
        let opening = last.opening.median / first.opening.median
        let goals: [Goal] = [
            .limit("\(name): find by tag", last.byTag.median.milliseconds, "ms", atMost: 1),
            .limit("\(name): find by claim", last.byClaim.median.milliseconds, "ms", atMost: 1),
            Goal(
                work: "\(name): the store's bytes per record", value: "\(Int(perRecord.large))",
                floor: "\(Int(perRecord.small)) with \(small.count)",
                ratio: Decimals.format(growth, 2),
                goal: "≤ 1.20", isMet: growth <= 1.2),
            Goal(
                work: "\(name): opening", value: last.opening.median.text,
                floor: "\(first.opening.median.text) with \(first.count)",
                ratio: Decimals.format(opening, 2),
                goal: "≤ 1.50", isMet: opening <= 1.5),
            .limit(
                "\(name): memory of opening, above an empty store",
                Double(memory.full - memory.empty) / 1e6, "MB",
                atMost: 5),
        ]
        func curve(_ samples: (Stage) -> Samples) -> [(Double, Double)] {
            stages.map { (Double($0.count), samples($0).median.milliseconds) }
        }
        return Findings(
            goals: goals,
            plots: [
                Plot(
                    file: "records-time", title: "One store, growing", x: "records in the store",
                    y: "ms",
                    series: [
                        .init(name: "find by tag", points: curve(\.byTag)),
                        .init(name: "find by claim", points: curve(\.byClaim)),
                        .init(name: "store one more, durably", points: curve(\.storing)),
                        .init(name: "open the store and find one", points: curve(\.opening)),
                    ]),
                Plot(
                    file: "records-size", title: "Size of the store", x: "records in the store",
                    y: "MB on disk",
                    series: [
                        .init(
                            name: "the file",
                            points: stages.map { (Double($0.count), Double($0.bytes) / 1e6) })
                    ]),
            ])
    }

    /// The peak memory of a process that opens the store and finds a credential.
    private static func memory(
        of directory: TemporaryDirectory, _ tpm: SoftwareTPM, _ wanted: String
    ) throws -> Int {
        let program = Program.built(
            "latchkey",
            environment: [
                "LATCHKEY_TCTI": tpm.tcti, "XDG_CONFIG_HOME": directory.path(of: "config"),
            ])
        let arguments = ["credential", "list", "--where", "n=\(wanted)", "--store", directory.path]
        return try (0..<3).map { _ in try program.measure(arguments).bytes }.max() ?? 0
    }

    private static func bytes(of directory: TemporaryDirectory) throws -> Int {
        let folder = directory.url.appending(path: "default")
        return try FileManager.default.contentsOfDirectory(
            at: folder, includingPropertiesForKeys: [.fileSizeKey]
        )
        .reduce(0) { $0 + (try $1.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0) }
    }
}
