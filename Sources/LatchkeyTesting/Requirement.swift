internal import FoundationEssentials
public import Testing

/// What a test needs of the machine, beyond what the package brings along.
extension Trait where Self == ConditionTrait {
    /// Skips the test, and says why, where `program` is not in `PATH`.
    public static func requires(program: String) -> Self {
        .enabled(if: isInstalled(program), "needs the program \(program), which is not in PATH")
    }
}

private func isInstalled(_ program: String) -> Bool {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    return path.split(separator: ":").contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
}
