import Foundation

/// The times of repeated measurements.
struct Samples: Sendable {
    private(set) var durations: [Duration] = []

    mutating func add(_ duration: Duration) {
        durations.append(duration)
    }

    mutating func measure<R>(_ body: () async throws -> R) async rethrows -> R {
        let start = ContinuousClock.now
        let result = try await body()
        durations.append(ContinuousClock.now - start)
        return result
    }

    var median: Duration {
        let sorted = durations.sorted()
        return sorted.isEmpty ? .zero : sorted[sorted.count / 2]
    }
}

extension Duration {
    var microseconds: Double {
        Double(components.seconds) * 1e6 + Double(components.attoseconds) / 1e12
    }

    var milliseconds: Double { microseconds / 1000 }

    /// The time in µs or ms, with at least three digits.
    var text: String {
        microseconds < 1000
            ? "\(microseconds.text(1)) µs" : "\(milliseconds.text(2)) ms"
    }
}

extension Double {
    func text(_ places: Int) -> String { String(format: "%.\(places)f", self) }
}
