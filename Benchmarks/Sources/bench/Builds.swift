import Foundation
import LatchkeySimulators

/// The times of builds and checks that people wait for.
///
/// A complete run measures the builds, each from a clean clone of this repository's last commit.
/// SwiftPM's cache of fetched repositories is used. The times of the checks are those of the last
/// `.ci/run` of this clone.
struct Builds {
    let isComplete: Bool

    @concurrent func run() async throws -> Findings {
        var (demo, app): (Double?, Double?) = (nil, nil)
        if isComplete {
            let directory = try TemporaryDirectory()
            let repository = try Self.text("git rev-parse --show-toplevel")
            func clone(_ name: String) throws -> String {
                let path = directory.path(of: name)
                try Self.text("git clone -q '\(repository)' '\(path)'")
                return path
            }
            let products = ["latchkey", "latchkey-identity", "latchkey-demo"]
            let builds = products.map { "swift build --product \($0)" }.joined(separator: " && ")
            demo = try await Self.minutes("cd '\(clone("demo"))' && \(builds)")
            // The program of the README, with the packages that it needs.
            let examples = "cd '\(try clone("app"))/Examples'"
            let traits = "sed -i 's/traits: .\"Network\"./traits: []/' Package.swift"
            app = try await Self.minutes(
                "\(examples) && \(traits) && swift build --product greeting")
        }
        let steps = Self.steps
        return Findings(rows: [
            Row("first build for scripts/demo", demo, "min", atMost: 5, note: "--builds"),
            Row("first build of the README's app", app, "min", atMost: 2.5, note: "--builds"),
            Row(
                "scripts/test", steps["scripts/test"], "min", atMost: 12, note: "the last .ci/run"),
            Row(".ci/run", steps["CI"], "min", atMost: 15, note: "the last .ci/run"),
        ])
    }

    /// The minutes of the steps of the last `.ci/run`.
    private static var steps: [String: Double] {
        let log = (try? String(contentsOfFile: ".build/logs/ci-times.log", encoding: .utf8)) ?? ""
        return Dictionary(
            log.split(separator: "\n").compactMap { line -> (String, Double)? in
                let words = line.split(separator: " ")
                guard words.count == 4, words[1] == "took", let time = Double(words[2]) else {
                    return nil
                }
                return (String(words[0]), time / 60)
            }, uniquingKeysWith: { $1 })
    }

    @discardableResult
    private static func text(_ script: String) throws -> String {
        let output = try Program(name: "bash").run(["-euc", script])
        return String(decoding: output, as: UTF8.self).trimmingCharacters(
            in: .whitespacesAndNewlines)
    }

    /// The time of a script in minutes. SwiftPM prints errors to standard output; the redirection
    /// puts them into the failure.
    private static func minutes(_ script: String) async throws -> Double {
        var samples = Samples()
        _ = try await samples.measure { try text("{ \(script); } >&2") }
        return samples.median.milliseconds / 60_000
    }
}
