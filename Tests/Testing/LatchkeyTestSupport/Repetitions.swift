internal import Foundation

/// The repetitions of tests that repeat a race, or that try each point of a change.
package enum Repetitions {
    /// Whether tests run all repetitions (`LATCHKEY_TESTS=all`, as in scripts/nightly) or a sample.
    package static let areComplete = ProcessInfo.processInfo.environment["LATCHKEY_TESTS"] == "all"

    /// The number of repetitions.
    package static func count(_ all: Int, sample: Int) -> Int { areComplete ? all : sample }

    /// The points at which a test of a change causes a fault: all, or a sample.
    ///
    /// - Parameters:
    ///   - first: The first point of a sample. Tests of a change that start at 0 to `distance` - 1
    ///     together test all points.
    ///   - distance: The distance between the points of a sample.
    /// - Returns: An endless sequence, because only a run without a fault shows how many points the
    ///   change has.
    package static func points(from first: Int, each distance: Int) -> some Sequence<Int> {
        areComplete ? sequence(first: 0) { $0 + 1 } : sequence(first: first) { $0 + distance }
    }
}
