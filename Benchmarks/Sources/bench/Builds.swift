import Foundation
import LatchkeySimulators

/// Measures the builds that users wait for, each from a clean clone of this repository's last
/// commit. SwiftPM's cache of fetched repositories is used.
struct Builds {
    func run() throws -> Findings {
        let directory = try TemporaryDirectory()
        let repository = try Self.text("git rev-parse --show-toplevel")
        func clone(_ name: String) throws -> String {
            let path = directory.path(of: name)
            try Self.text("git clone -q '\(repository)' '\(path)'")
            return path
        }
        let demo = try clone("demo")
        let demoTime = try Self.time(
            "cd '\(demo)' && swift build --product latchkey && swift build --product latchkey-identity"
        )
        let app = try Self.firstApp(of: try clone("latchkey"), in: directory)
        let appTime = try Self.time("cd '\(app)' && swift build")
        let packages = try Self.text("ls '\(app)/.build/checkouts' | wc -l")
        let release = try clone("release")
        let releaseTime = try Self.time(
            "cd '\(release)' && . scripts/lib/build.sh && build_programs")
        return Findings(goals: [
            .limit("first debug build for scripts/demo", demoTime, "min", atMost: 5),
            .limit("first build of the README's app", appTime, "min", atMost: 2.5),
            .limit(
                "packages fetched for the README's app", Double(packages) ?? .infinity, "",
                atMost: 8),
            .limit("release build of all programs", releaseTime, "min", atMost: 10),
        ])
    }

    /// Creates the app of the README's section "Swift" with the section's commands, next to the
    /// clone.
    private static func firstApp(of clone: String, in directory: TemporaryDirectory) throws
        -> String
    {
        let readme = try String(contentsOfFile: "\(clone)/README.md", encoding: .utf8)
        let section =
            readme.components(separatedBy: "\n## ").first { $0.hasPrefix("Swift\n") } ?? ""
        let blocks = section.components(separatedBy: "```")
        guard blocks.count > 3, blocks[1].hasPrefix("console\n"), blocks[3].hasPrefix("swift\n")
        else {
            throw Failure(reason: "the README has no commands or no code for a first app")
        }
        let commands = blocks[1].split(separator: "\n").dropFirst().map {
            $0.drop(while: { "$> ".contains($0) })
        }
        try text("cd '\(directory.url.path)' && \(commands.joined(separator: "\n"))")
        let app = directory.path(of: "greeting")
        try String(blocks[3].dropFirst("swift\n".count)).write(
            toFile: "\(app)/Sources/greeting/greeting.swift", atomically: true, encoding: .utf8)
        return app
    }

    @discardableResult
    private static func text(_ script: String) throws -> String {
        let output = try Program(name: "bash").run(["-euc", script])
        return String(decoding: output, as: UTF8.self).trimmingCharacters(
            in: .whitespacesAndNewlines)
    }

    /// The time of a script in minutes. SwiftPM prints errors to standard output; the redirection
    /// puts them into the failure.
    private static func time(_ script: String) throws -> Double {
        var samples = Samples()
        try samples.measure { try text("{ \(script); } >&2") }
        return samples.median.milliseconds / 60_000
    }
}
