import Foundation
import Glibc

/// The processor time of processes, from /proc. In contrast to the elapsed time, it hardly depends
/// on the load of the machine.
enum ProcessorTime {
    private struct Status {
        let parent: Int32
        /// Seconds of the process and of its children that have ended.
        let seconds: Double

        /// - Returns: nil if the process does not exist.
        init?(_ process: Int32) {
            guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
                let end = text.lastIndex(of: ")")
            else { return nil }
            // proc_pid_stat(5): after the name, the fields begin with the third.
            let fields = text[text.index(after: end)...].split(separator: " ")
            guard fields.count > 14, let parent = Int32(fields[1]) else { return nil }
            self.parent = parent
            let ticks = fields[11...14].compactMap { Double($0) }.reduce(0, +)
            seconds = ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
        }
    }

    /// The seconds of these processes and of their children.
    static func seconds(of processes: [Int32]) throws -> Double {
        var total = 0.0
        for name in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
            guard let process = Int32(name), let status = Status(process) else { continue }
            if processes.contains(process) || processes.contains(status.parent) {
                total += status.seconds
            }
        }
        return total
    }
}
