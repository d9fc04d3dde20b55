/// A program with arguments that is measured as a process.
struct MeasuredProcess {
    let name: String
    let program: Program
    let arguments: [String]
    /// The work after each run. It is not measured.
    var cleaning: (@Sendable () throws -> Void)?
    private(set) var samples = Samples()
    /// The peak memory of all runs, in bytes.
    private(set) var peak = 0

    init(
        _ name: String, _ program: Program, _ arguments: [String] = [],
        cleaning: (@Sendable () throws -> Void)? = nil
    ) {
        self.name = name
        self.program = program
        self.arguments = arguments
        self.cleaning = cleaning
    }

    /// The smallest program. Its time and memory are the minimum for all others.
    static let floor = MeasuredProcess("/bin/true", Program(name: "/bin/true"))

    /// Runs the processes in turn, once before the measurement.
    static func measure(_ processes: inout [MeasuredProcess], rounds: Int) throws {
        for round in -1..<rounds {
            for index in processes.indices {
                let (time, bytes) = try processes[index].program.measure(processes[index].arguments)
                try processes[index].cleaning?()
                guard round >= 0 else { continue }
                processes[index].samples.add(time)
                processes[index].peak = max(processes[index].peak, bytes)
            }
        }
    }

    /// A table with the time and peak memory of each process.
    static func table(_ title: String, _ processes: [MeasuredProcess]) -> Table {
        var table = Table(title)
        for process in processes {
            table.add(
                "\(process.name) (\(Decimals.format(Double(process.peak) / 1e6, 1)) MB)",
                process.samples)
        }
        return table
    }

    func memoryGoal(atMost megabytes: Double) -> Goal {
        .limit("peak memory of \(name)", Double(peak) / 1e6, "MB", atMost: megabytes)
    }
}
