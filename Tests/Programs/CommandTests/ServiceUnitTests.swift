import Foundation
import LatchkeyServices
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The units of `packaging/`: their rule of restarts, and its table in the article ManyMachines.
@Suite(.timeLimit(.minutes(15))) struct ServiceUnitTests {
    /// The file of a unit.
    struct Unit: CustomTestStringConvertible, Sendable {
        /// The folder in `packaging/`: `systemd` or `systemd-user`.
        let folder: String
        let name: String
        let text: String

        var testDescription: String { name }

        /// The lines `Name=Value` of the settings whose name begins with one of `names`.
        func settings(_ names: String...) -> Set<String> {
            Set(
                text.split(separator: "\n").map(String.init).filter { line in
                    names.contains { line.hasPrefix($0) }
                })
        }
    }

    private static let packaging = BuiltProduct.packageFolder.appending(path: "packaging")

    private static let units = ["systemd", "systemd-user"].flatMap { folder in
        let files = try? FileManager.default.contentsOfDirectory(
            at: packaging.appending(path: folder), includingPropertiesForKeys: nil)
        return (files ?? []).compactMap { file in
            (try? String(contentsOf: file, encoding: .utf8)).map {
                Unit(folder: folder, name: file.lastPathComponent, text: $0)
            }
        }
    }

    private static let services = units.filter { $0.name.hasSuffix(".service") }

    /// The rows of the article's table, by the name of the unit.
    private static func rows() throws -> [String: String] {
        let article = try String(
            contentsOf: BuiltProduct.packageFolder.appending(
                path: "Documentation/Guide.docc/ManyMachines.md"), encoding: .utf8)
        let rows = article.matches(of: /(?m)^\| `(?<unit>[a-z-]+\.(service|socket))`(?<rest>.*)$/)
        return Dictionary(
            rows.map { (String($0.unit), String($0.rest)) }, uniquingKeysWith: { $0 + $1 })
    }

    /// The units that do not start in each case.
    private static let conditional = units.filter {
        $0.name.hasSuffix(".service") || !$0.settings("Condition").isEmpty
    }

    @Test func `the article lists the services and the conditional sockets`() throws {
        #expect(Self.services.count == 4 && Self.conditional.count == 5)
        #expect(try Set(Self.rows().keys) == Set(Self.conditional.map(\.name)))
    }

    @Test(arguments: conditional) func `the article has the conditions and restarts of a unit`(
        _ unit: Unit
    ) throws {
        let row = try #require(Self.rows()[unit.name])
        // A table needs the escape of a bar.
        let listed = row.matches(of: /`(?<setting>[A-Za-z]+=[^`]*)`/).map {
            String($0.setting).replacing("\\|", with: "|")
        }
        #expect(
            Set(listed) == unit.settings("Condition", "Assert", "Restart", "StartLimit"))
    }

    @Test(arguments: services) func `only a service that no client starts restarts itself`(
        _ unit: Unit
    ) throws {
        let hasClients =
            Self.units.contains { $0.name == unit.name.replacing(".service", with: ".socket") }
            || unit.text.contains("\nBusName=")
        let permanent = [ExitStatus.usage, .damaged].map { "\($0.rawValue)" }
        #expect(
            unit.settings("Restart=", "RestartPrevent", "StartLimit")
                == (hasClients
                    ? ["Restart=no", "StartLimitIntervalSec=0"]
                    : [
                        "Restart=on-failure", "StartLimitIntervalSec=0",
                        "RestartPreventExitStatus=\(permanent.joined(separator: " "))",
                    ]))
    }

    /// Without a limit on starts, a client that waits would start a service that cannot start in a loop.
    @Test(arguments: units.filter { $0.name.hasSuffix(".socket") })
    func `a socket starts its service at the next client, without a limit`(_ unit: Unit) {
        #expect(
            unit.settings("FlushPending", "TriggerLimit")
                == ["FlushPending=yes", "TriggerLimitIntervalSec=0"])
    }

    /// The programs are not installed, so that systemd checks everything except their paths.
    @Test(.requires(program: "systemd-analyze"), arguments: ["systemd", "systemd-user"])
    func `systemd accepts the units`(_ folder: String) async throws {
        let directory = try TemporaryDirectory()
        let units = Self.units.filter { $0.folder == folder }
        #expect(units.count > 1)
        for unit in units {
            try Data(unit.text.replacing(/(?m)^ExecStart=\S+/, with: "ExecStart=/bin/true").utf8)
                .write(to: URL(filePath: directory.path(of: unit.name)))
        }
        let analyze = SystemProgram(
            "systemd-analyze",
            environment: [
                // The colon appends the system's own folders.
                "SYSTEMD_UNIT_PATH": "\(directory.path):", "XDG_RUNTIME_DIR": directory.path,
            ])
        let scope = folder == "systemd-user" ? ["--user"] : []
        let said = try await analyze.require(
            scope + ["verify", "--man=no"] + units.map { directory.path(of: $0.name) })
        #expect(!said.contains("latchkey"), "\(said)")
    }
}
