internal import Foundation
internal import Testing

/// Every place at which a change of what is stored can be cut off.
///
/// A change is run once to its end, and counted; then again and again, killed before another of its effects each time.
/// After each the caller looks whether all of it happened or nothing, and whether anything else was lost.
package enum KillPoints {
    /// Whether every point is visited, as the variable `LATCHKEY_KILL_POINTS=all` wants it; else an even share of them.
    package static let visitsAll = ProcessInfo.processInfo.environment["LATCHKEY_KILL_POINTS"] == "all"

    /// One life of a change.
    package struct Life: Sendable, CustomStringConvertible {
        let name: String
        /// Before which effect it was killed; nil when it came to its end.
        package let killedBefore: Int?
        /// What it had done by then.
        package let effects: KillSwitch.Effects

        package var description: String {
            "\(name), \(killedBefore.map { "killed before effect \($0)" } ?? "to its end"), after \(effects)"
        }
    }

    /// Kills a change at its points.
    ///
    /// - Parameters:
    ///   - kind: What is changed.
    ///   - prepare: Makes what the change begins with. A program that it starts with these variables in its environment
    ///     is killed in `change`, and not before.
    ///   - change: Runs the program, with the same variables; says whether it came to its end.
    ///   - check: Looks at what it left.
    package static func visit<State>(
        _ kind: StateChange, prepare: ([String: String]) async throws -> State,
        change: (State, [String: String]) async throws -> Bool, check: (State, Life) async throws -> Void
    ) async throws {
        let (name, share) = (kind.rawValue, kind.share)
        let killSwitch = try KillSwitch()
        func live(before effect: Int?) async throws -> Life {
            try killSwitch.arm(before: nil)
            let state = try await prepare(killSwitch.environment)
            try killSwitch.arm(before: effect)
            let isOver = try await change(state, killSwitch.environment)
            let life = Life(name: name, killedBefore: isOver ? nil : effect, effects: try killSwitch.effects)
            try #require(isOver || effect != nil, "\(life)")
            // A life may be shorter than the first by some effects, as threads meet otherwise.
            if isOver, let effect { #expect(life.effects.total < effect, "\(life) outlived its end") }
            try await check(state, life)
            return life
        }
        let whole = try await live(before: nil).effects
        #expect(whole.total >= share, "\(name) has \(whole.total) points")
        let count = visitsAll ? whole.total : min(share, whole.total)
        var killed = 0
        for index in 0..<count where try await live(before: 1 + index * whole.total / count).killedBefore != nil {
            killed += 1
        }
        // Threads may save some effects at the end.
        #expect(killed + max(2, count / 5) >= count, "\(name) was killed \(killed) times only")
        print(
            "Kill points: \(name): killed at \(killed) of \(whole.total)",
            "(files \(whole.files), TPM and bus \(whole.local), network \(whole.network))")
    }
}
