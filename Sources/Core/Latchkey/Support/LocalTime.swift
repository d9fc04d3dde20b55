package import FoundationEssentials
internal import Glibc

/// A point in time as people read it.
package enum LocalTime {
    /// The local date and time, and the distance from now: `2026-11-28 18:40 (in 16 minutes)`.
    package static func text(_ date: Date, now: Date = Date()) -> String {
        // Times that localtime(3) cannot represent stay in UTC.
        guard abs(date.timeIntervalSince1970) < 1e12 else { return date.formatted(.iso8601) }
        var seconds = time_t(date.timeIntervalSince1970)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return date.formatted(.iso8601) }
        var buffer = [CChar](repeating: 0, count: 32)
        let count = strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M", &parts)
        let text = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return "\(text) (\(distance(date.timeIntervalSince(now))))"
    }

    /// For example `in 16 minutes` or `3 days ago`.
    package static func distance(_ interval: TimeInterval) -> String {
        let seconds = Int(abs(interval).rounded())
        let units = [("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)]
        guard let (unit, length) = units.first(where: { seconds >= $0.1 }) else { return "now" }
        let count = Int((Double(seconds) / Double(length)).rounded())
        let words = "\(count) \(unit)\(count == 1 ? "" : "s")"
        return interval > 0 ? "in \(words)" : "\(words) ago"
    }
}
