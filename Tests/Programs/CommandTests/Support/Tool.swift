import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import Subprocess
import SystemPackage
import Testing

/// The built programs of this package.
enum Products {
    /// SwiftPM's directory, which also has the test bundle.
    static let directory: FilePath = {
        let root = FilePath(#filePath).removingLastComponent().removingLastComponent()
            .removingLastComponent()
            .removingLastComponent().removingLastComponent()
        #if DEBUG
            return root.appending(".build/debug")
        #else
            return root.appending(".build/release")
        #endif
    }()

    static let latchkey = directory.appending("latchkey")
    static let agent = directory.appending("latchkey-agent")
    static let passkeys = directory.appending("latchkey-passkeys")
    static let presenceBroker = directory.appending("latchkey-presenced")
    static let demo = directory.appending("latchkey-demo")
    static let identityServer = directory.appending("latchkey-identity")
}

/// The result of a run of the tool.
struct Outcome: Sendable {
    /// The exit code; nil if a signal ended the process.
    let status: Int32?
    let output: String
    let errors: String

    /// The one JSON object on stdout.
    func json(sourceLocation: SourceLocation = #_sourceLocation) throws -> [String: JSON] {
        try #require(
            try? JSONDecoder().decode([String: JSON].self, from: Data(output.utf8)),
            "stdout: \(output) stderr: \(errors)", sourceLocation: sourceLocation)
    }
}

/// A directory with one user's store and configuration, and the environment to run the tool in it.
struct Machine: Sendable {
    let directory: TemporaryDirectory
    var environment: [String: String]

    /// - Parameter tcti: The TPM, as `LATCHKEY_TCTI` names it.
    init(tcti: String?) throws {
        directory = try TemporaryDirectory()
        environment = [
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": directory.path, "TSS2_LOG": "all+NONE",
            "LC_ALL": "C.UTF-8",
            "XDG_DATA_HOME": directory.path(of: "data"),
            "XDG_CONFIG_HOME": directory.path(of: "config"),
        ]
        if let tcti { environment["LATCHKEY_TCTI"] = tcti }
        try FileManager.default.createDirectory(
            atPath: directory.path(of: "data"), withIntermediateDirectories: false)
    }

    var databasePath: String { directory.path(of: "data/latchkey/default/latchkey.sqlite") }

    /// Runs `latchkey` as a child process.
    ///
    /// - Parameters:
    ///   - pins: The PINs in the order of the prompts; nil for no source of PINs.
    ///   - input: Its standard input.
    ///   - life: The time limit, after which it is killed.
    ///   - message: The text in its standard error output after which it is killed.
    ///   - extra: More variables for its environment.
    ///   - program: Another program than `latchkey`.
    func run(
        _ arguments: String..., pins: [String]? = nil, input: String = "",
        life: Duration = hangLimit,
        killedAfter message: String? = nil, extra: [String: String] = [:],
        program: FilePath = Products.latchkey
    ) async throws -> Outcome {
        try await run(
            arguments, pins: pins, input: input, life: life, killedAfter: message, extra: extra,
            program: program)
    }

    func run(
        _ arguments: [String], pins: [String]? = nil, input: String = "",
        life: Duration = hangLimit,
        killedAfter message: String? = nil, extra: [String: String] = [:],
        program: FilePath = Products.latchkey
    ) async throws -> Outcome {
        var variables = environment.merging(extra) { $1 }
        if let pins {
            let path = directory.path(of: "pins-\(UInt64.random(in: 0 ... .max))")
            try Data(pins.map { "\($0)\n" }.joined().utf8).write(to: URL(filePath: path))
            try #require(chmod(path, 0o600) == 0)
            variables["LATCHKEY_PIN_SOURCE"] = "file:\(path)"
        }
        let result = try await Subprocess.run(
            .path(program), arguments: Arguments(arguments),
            environment: .custom(Self.keys(variables)),
            input: try .file(with: input.utf8), output: .sequence, error: .sequence
        ) { execution in
            let process = execution.processIdentifier.value
            let watchdog = Task {
                try await Task.sleep(for: life)
                kill(process, SIGKILL)
            }
            defer { watchdog.cancel() }
            async let output = Self.text(of: execution.standardOutput)
            async let errors = Self.text(of: execution.standardError) { text in
                if let message, text.contains(message) { kill(process, SIGKILL) }
            }
            return try await (output, errors)
        }
        let status: Int32? =
            if case .exited(let code) = result.terminationStatus { code } else { nil }
        return Outcome(
            status: status, output: result.closureResult.0, errors: result.closureResult.1)
    }

    private static func text(
        of sequence: SubprocessOutputSequence, onPart: (String) -> Void = { _ in }
    ) async throws -> String {
        var bytes: [UInt8] = []
        for try await buffer in sequence {
            buffer.withUnsafeBytes { bytes += $0 }
            onPart(String(decoding: bytes, as: UTF8.self))
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func keys(_ variables: [String: String]) -> [Environment.Key: String] {
        Dictionary(
            uniqueKeysWithValues: variables.map {
                (Environment.Key(stringLiteral: $0.key), $0.value)
            })
    }
}
