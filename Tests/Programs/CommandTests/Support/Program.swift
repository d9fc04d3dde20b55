import FoundationEssentials
import Subprocess
import SystemPackage
import Testing

/// Runs a program of the system as an independent check.
///
/// - Returns: Its standard output. It must end with 0.
@discardableResult
func program(
    _ name: String, _ arguments: [String], environment: [String: String] = [:],
    sourceLocation: SourceLocation = #_sourceLocation
) async throws -> String {
    let variables = ["PATH": "/usr/local/bin:/usr/bin:/bin", "TSS2_LOG": "all+NONE"].merging(
        environment
    ) { $1 }
    let result = try await Subprocess.run(
        name.hasPrefix("/") ? .path(FilePath(name)) : .name(name), arguments: Arguments(arguments),
        environment: .custom(Machine.keys(variables)),
        output: .string(limit: 1 << 20), error: .string(limit: 1 << 16))
    try #require(
        result.terminationStatus.isSuccess,
        "\(name): \(result.standardOutput) \(result.standardError)",
        sourceLocation: sourceLocation)
    return result.standardOutput
}

/// Everything that the TPM holds loaded: transient objects and sessions.
func loadedHandles(_ tcti: String) async throws -> String {
    let objects = try await program(
        "tpm2_getcap", ["handles-transient"], environment: ["TPM2TOOLS_TCTI": tcti])
    let sessions = try await program(
        "tpm2_getcap", ["handles-loaded-session"], environment: ["TPM2TOOLS_TCTI": tcti])
    return objects + sessions
}
