import CoreMetrics
import Synchronization

/// The metrics of this process in Prometheus's text format, version 0.0.4. Libraries record them
/// through swift-metrics.
///
/// A timer becomes a histogram in seconds, a recorder a histogram of its values, and a meter a
/// gauge.
final class PrometheusMetrics: MetricsFactory, Sendable {
    /// The upper limits of a histogram's buckets.
    static let buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    fileprivate enum Kind: String {
        case counter, gauge, histogram
    }

    /// A series of a metric: its values for one combination of labels.
    fileprivate final class Series: Sendable {
        private struct State {
            var sum = 0.0
            var count = 0
            var counts = [Int](repeating: 0, count: PrometheusMetrics.buckets.count)
        }

        private let state = Mutex(State())
        private let scale: Double

        /// - Parameter scale: The factor of recorded values.
        init(scale: Double = 1) { self.scale = scale }

        func add(_ value: Double) { state.withLock { $0.sum += value } }
        func set(_ value: Double) { state.withLock { $0.sum = value } }

        func observe(_ value: Double) {
            let value = value * scale
            state.withLock { state in
                state.sum += value
                state.count += 1
                if let bucket = PrometheusMetrics.buckets.firstIndex(where: { value <= $0 }) {
                    state.counts[bucket] += 1
                }
            }
        }

        fileprivate func lines(_ name: String, _ labels: [String], _ kind: Kind) -> String {
            let (sum, count, counts) = state.withLock { ($0.sum, $0.count, $0.counts) }
            func line(_ suffix: String, _ value: String, _ more: [String] = []) -> String {
                let all = labels + more
                return
                    "\(name)\(suffix)\(all.isEmpty ? "" : "{\(all.joined(separator: ","))}") \(value)\n"
            }
            guard kind == .histogram else { return line("", "\(sum)") }
            var (text, total) = ("", 0)
            for (limit, count) in zip(PrometheusMetrics.buckets, counts) {
                total += count
                text += line("_bucket", "\(total)", ["le=\"\(limit)\""])
            }
            return text + line("_bucket", "\(count)", [#"le="+Inf""#]) + line("_sum", "\(sum)")
                + line("_count", "\(count)")
        }
    }

    private struct Metric {
        let kind: Kind
        var series: [[String]: Series] = [:]
    }

    private let metrics = Mutex<[String: Metric]>([:])

    /// The text of all metrics, sorted by name.
    var text: String {
        let metrics = metrics.withLock { $0 }
        return metrics.sorted { $0.key < $1.key }.map { name, metric in
            let series = metric.series.sorted { $0.key.lexicographicallyPrecedes($1.key) }
            return "# TYPE \(name) \(metric.kind.rawValue)\n"
                + series.map { $1.lines(name, $0, metric.kind) }.joined()
        }.joined()
    }

    private func series(
        _ label: String, _ dimensions: [(String, String)], _ kind: Kind, scale: Double = 1
    ) -> Series {
        let name = Self.name(label) + (kind == .counter ? "_total" : "")
        let labels = dimensions.map { "\(Self.name($0))=\"\(Self.escaped($1))\"" }
        return metrics.withLock { metrics in
            var metric = metrics[name] ?? Metric(kind: kind)
            let series = metric.series[labels] ?? Series(scale: scale)
            metric.series[labels] = series
            metrics[name] = metric
            return series
        }
    }

    /// A name with letters, digits and underscores only.
    private static func name(_ text: String) -> String {
        String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: #"\\"#).replacing("\"", with: #"\""#).replacing(
            "\n", with: #"\n"#)
    }

    // MARK: MetricsFactory

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        Handler(series(label, dimensions, .counter))
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        Handler(series(label, dimensions, .gauge))
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool)
        -> any RecorderHandler
    {
        aggregate
            ? Handler(series(label, dimensions, .histogram))
            : Gauge(series(label, dimensions, .gauge))
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        Handler(series("\(label)_seconds", dimensions, .histogram, scale: 1e-9))
    }

    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}

private final class Handler: CounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    private let series: PrometheusMetrics.Series

    init(_ series: PrometheusMetrics.Series) { self.series = series }

    func increment(by amount: Int64) { series.add(Double(amount)) }
    func reset() { series.set(0) }
    func set(_ value: Int64) { series.set(Double(value)) }
    func set(_ value: Double) { series.set(value) }
    func increment(by amount: Double) { series.add(amount) }
    func decrement(by amount: Double) { series.add(-amount) }
    func record(_ value: Int64) { series.observe(Double(value)) }
    func record(_ value: Double) { series.observe(value) }
    func recordNanoseconds(_ duration: Int64) { series.observe(Double(duration)) }
}

/// The last value.
private final class Gauge: RecorderHandler {
    private let series: PrometheusMetrics.Series

    init(_ series: PrometheusMetrics.Series) { self.series = series }

    func record(_ value: Int64) { series.set(Double(value)) }
    func record(_ value: Double) { series.set(value) }
}
