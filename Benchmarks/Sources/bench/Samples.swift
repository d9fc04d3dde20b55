/// The times of repeated measurements.
struct Samples: Sendable {
    private(set) var durations: [Duration] = []

    mutating func add(_ duration: Duration) {
        durations.append(duration)
    }

    mutating func add(_ others: Samples) {
        durations += others.durations
    }

    mutating func measure<R>(_ body: () async throws -> R) async rethrows -> R {
        let start = ContinuousClock.now
        let result = try await body()
        durations.append(ContinuousClock.now - start)
        return result
    }

    mutating func measure<R>(_ body: () throws -> R) rethrows -> R {
        let start = ContinuousClock.now
        let result = try body()
        durations.append(ContinuousClock.now - start)
        return result
    }

    var median: Duration { quantile(0.5) }
    var p95: Duration { quantile(0.95) }
    var p99: Duration { quantile(0.99) }

    private func quantile(_ part: Double) -> Duration {
        let sorted = durations.sorted()
        return sorted.isEmpty
            ? .zero : sorted[min(Int(Double(sorted.count) * part), sorted.count - 1)]
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
            ? "\(Decimals.format(microseconds, 1)) µs" : "\(Decimals.format(milliseconds, 2)) ms"
    }
}
