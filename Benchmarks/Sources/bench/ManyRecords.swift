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
            return findings(stages)
        }
    }

    private func measure(
        _ count: Int, _ tpm: SoftwareTPM, _ directory: TemporaryDirectory,
        _ counter: CountingTransport.Counter
    ) async throws -> Stage {
        var stage = Stage(count: count)
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
            let byTag = try await stage.byTag.measure {
                try Credential.find { $0.tags["n"] == "\(wanted)" }
            }
            let byClaim = try await stage.byClaim.measure {
                try Credential.find { $0.subject == "user-\(wanted)" }
            }
            guard [byTag, byClaim].allSatisfy({ $0.map(\.id) == ["c\(wanted)"] }) else {
                throw Failure(reason: "\(wanted) of \(count) is not found")
            }
        }
        guard counter.take().isEmpty else { throw Failure(reason: "a search went to the hardware") }
        for round in 0..<rounds {
            let token = try Shelf.token("extra-\(count)-\(round)", subject: "nobody")
            let credential = try await stage.storing.measure {
                try Credential.store(token: token, tags: ["n": "none"])
            }
            try credential.remove()
        }
        return stage
    }

    private func findings(_ stages: [Stage]) -> Findings {
        guard let first = stages.first, let last = stages.last else { return Findings() }
        func curve(_ samples: (Stage) -> Samples) -> [(Double, Double)] {
            stages.map { (Double($0.count), samples($0).median.milliseconds) }
        }
        let name = "\(last.count) records"
        return Findings(
            rows: [
                Row("\(name): find by tag", last.byTag.median.milliseconds, "ms", atMost: 1),
                Row("\(name): find by claim", last.byClaim.median.milliseconds, "ms", atMost: 1),
                Row(
                    "\(name): opening ÷ with \(first.count)", last.opening, over: first.opening,
                    atMost: 1.5),
            ],
            plots: [
                Plot(
                    file: "records", title: "One store, growing", x: "records in the store",
                    y: "ms",
                    series: [
                        .init(name: "find by tag", points: curve(\.byTag)),
                        .init(name: "find by claim", points: curve(\.byClaim)),
                        .init(name: "store one more, durably", points: curve(\.storing)),
                        .init(name: "open the store and find one", points: curve(\.opening)),
                    ])
            ])
    }
}
