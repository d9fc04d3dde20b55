import Foundation

/// The processor time of a process, from /proc. In contrast to the elapsed time, it hardly depends
/// on the load of the machine.
enum ProcessorTime {
    /// The seconds of the process.
    static func seconds(of process: Int32) throws -> Double {
        // proc_pid_stat(5): after the name, the fields begin with the third.
        let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12])
        else { throw Failure(reason: "/proc does not report the time of the process") }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
}
