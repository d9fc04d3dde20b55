import Foundation

/// The times that the last `.ci/run` of this clone recorded. The benchmark does not run CI itself.
struct ContinuousIntegration {
    /// Steps whose times have goals.
    private static let goals = [("scripts/test", 20.0), ("CI", 15.0)]

    var findings: Findings {
        let log = (try? String(contentsOfFile: ".build/logs/ci-times.log", encoding: .utf8)) ?? ""
        let seconds = Dictionary(
            log.split(separator: "\n").compactMap { line -> (String, Double)? in
                let words = line.split(separator: " ")
                guard words.count == 4, words[1] == "took", let time = Double(words[2]) else {
                    return nil
                }
                return (String(words[0]), time)
            }, uniquingKeysWith: { $1 })
        return Findings(
            goals: Self.goals.map { step, minutes in
                let work = step == "CI" ? "the last .ci/run" : "\(step) in the last .ci/run"
                guard let time = seconds[step] else {
                    return .unmeasured(work, goal: "≤ \(Int(minutes)) min")
                }
                return .limit(work, time / 60, "min", atMost: minutes)
            })
    }
}
