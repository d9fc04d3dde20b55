import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyServices

/// `latchkey config`.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the settings, and change those of your configuration file.",
        discussion: """
            An option overrides a variable, a variable overrides your file, and your file overrides the file of this \
            machine's administrator, \(SettingsFile.administrators). You cannot weaken the settings that it fixes. Services \
            read the settings when they start.
            """,
        subcommands: [List.self, Get.self, Change.self, Unset.self])
}

/// A command on the settings. Unlike a ``ContextCommand``, it can also correct settings that the
/// programs do not accept.
protocol SettingsCommand: AsyncParsableCommand {
    associatedtype Output: Report

    var arguments: GlobalOptions { get }

    func perform(on console: Console, environment: [String: String]) throws -> Output
}

extension SettingsCommand {
    func run() async throws {
        let console = Console(format: arguments.json ? .json : .text, isQuiet: arguments.quiet)
        try console.show(
            try perform(on: console, environment: ProcessInfo.processInfo.environment))
    }

    /// The settings of this run, from all places.
    fileprivate func values(_ environment: [String: String]) throws -> SettingsReader {
        try SettingsReader(
            options: arguments.values.merging(arguments.others) { $1 }, environment: environment
        ) { $0.toolFlaw(in: $1) }
    }

    /// The user's configuration file.
    fileprivate func file(_ environment: [String: String]) throws(KeystoreError) -> SettingsFile {
        guard let path = SettingsReader.path(environment: environment) else {
            throw KeystoreError(
                operation: "find the configuration file", code: .unavailable,
                reason: "neither XDG_CONFIG_HOME nor HOME is set", recovery: "Set one of them.")
        }
        return try SettingsFile(users: path)
    }
}

/// A command on one setting.
protocol NamedSettingCommand: SettingsCommand {
    var name: String { get }
}

extension NamedSettingCommand {
    fileprivate var setting: Setting {
        get throws {
            guard let setting = Setting(rawValue: name) else {
                throw ValidationError("\(Setting.unknown(name)).")
            }
            return setting
        }
    }

    func validate() throws { _ = try setting }
}

extension ConfigCommand {
    static let nameHelp = ArgumentHelp("The name of the setting.", valueName: "name")
    static let names = CompletionKind.list(Setting.allCases.map(\.rawValue))

    /// `latchkey config list`.
    struct List: SettingsCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the settings with their values, and where each comes from.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        func perform(on console: Console, environment: [String: String]) throws
            -> SettingListReport
        {
            let values = try values(environment)
            return SettingListReport(
                settings: Setting.allCases.map { SettingReport($0, in: values, environment) })
        }
    }

    /// `latchkey config get`.
    struct Get: NamedSettingCommand {
        static let configuration = CommandConfiguration(
            commandName: "get", abstract: "Print the value of one setting.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: nameHelp, completion: names) var name: String

        func perform(on console: Console, environment: [String: String]) throws -> SettingReport {
            let report = SettingReport(try setting, in: try values(environment), environment)
            guard report.value.value != nil else {
                throw KeystoreError(
                    operation: "get the setting", code: .notFound,
                    reason: "‘\(name)’ is not set, and has no default value",
                    recovery: "Set it with ‘latchkey config set \(name) VALUE’.")
            }
            return report
        }
    }

    /// `latchkey config set`.
    struct Change: NamedSettingCommand {
        static let configuration = CommandConfiguration(
            commandName: "set", abstract: "Set a value in your configuration file.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: nameHelp, completion: names) var name: String
        @Argument(help: "The value.") var value: String

        func validate() throws {
            let setting = try self.setting
            guard !value.isEmpty else {
                throw ValidationError(
                    "The value is empty. ‘latchkey config unset \(setting.rawValue)’ removes the setting."
                )
            }
            if let flaw = setting.toolFlaw(in: value) ?? setting.fileFlaw(in: value) {
                throw ValidationError("\(setting.rawValue): \(flaw).")
            }
        }

        func perform(on console: Console, environment: [String: String]) throws -> ChangeReport {
            let setting = try self.setting
            _ = try ProgramSettings(
                checking: value, of: setting, environment: environment
            ) { $0.toolFlaw(in: $1) }
            var file = try file(environment)
            file.values[setting] = value
            try file.write()
            console.warnOfSudo(environment: environment)
            warnOfPrecedence(over: setting, console, environment)
            return ChangeReport(name: name, value: Nullable(value), file: file.path)
        }

        /// Warns if an option or variable hides the new value.
        private func warnOfPrecedence(
            over setting: Setting, _ console: Console, _ environment: [String: String]
        ) {
            guard let values = try? values(environment),
                [.option, .variable].contains(values.source(of: setting)),
                let place = values.place(of: setting)
            else { return }
            console.warn("\(place) overrides the file.")
        }
    }

    /// `latchkey config unset`.
    struct Unset: NamedSettingCommand {
        static let configuration = CommandConfiguration(
            commandName: "unset", abstract: "Remove a setting from your configuration file.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: nameHelp, completion: names) var name: String

        func perform(on console: Console, environment: [String: String]) throws -> ChangeReport {
            var file = try file(environment)
            guard file.values.removeValue(forKey: try setting) != nil else {
                throw KeystoreError(
                    operation: "unset the setting", code: .notFound,
                    reason: "\(file.path) does not set ‘\(name)’",
                    recovery: "‘latchkey config list’ shows where each setting comes from.")
            }
            try file.write()
            return ChangeReport(name: name, value: Nullable(nil), file: file.path)
        }
    }
}

/// A change of the user's configuration file.
struct ChangeReport: SentenceReport {
    let name: String
    /// The new value; `null` if the file no longer sets it.
    let value: Nullable<String>
    let file: String

    var text: String {
        value.value == nil
            ? "\(printable(file)) no longer sets ‘\(name)’." : "\(printable(file)) sets ‘\(name)’."
    }
}

/// A setting, and where it comes from.
struct SettingReport: Report {
    let name: String
    /// `null` if nothing sets it, and it has no fixed default.
    let value: Nullable<String>
    /// `option`, `variable`, `user`, `administrator` or `default`.
    let source: String
    /// The option, the variable or the file; `null` for a default.
    let place: Nullable<String>
    /// Whether the administrator's file fixes the setting.
    let isFixed: Bool

    init(_ setting: Setting, in values: SettingsReader, _ environment: [String: String]) {
        name = setting.rawValue
        isFixed = values.administrators?.fixed[setting] != nil
        if let source = values.source(of: setting) {
            (value, place) = (Nullable(values[setting]), Nullable(values.place(of: setting)))
            self.source =
                switch source {
                case .option: "option"
                case .variable: "variable"
                case .user: "user"
                case .fixed, .administrator: "administrator"
                }
            return
        }
        let tools = environment[ProgramSettings.variableOfTools] ?? ""
        if setting == .tcti, !tools.isEmpty {
            (value, place) = (Nullable(tools), Nullable(ProgramSettings.variableOfTools))
            source = "variable"
            return
        }
        source = "default"
        place = Nullable(nil)
        value = Nullable(
            setting == .store
                ? try? RecordStore.defaultDirectory(environment: environment) : setting.standard)
    }

    /// Only the value.
    var layout: Layout { .verbatim(value.value ?? "") }

    /// The place, in words.
    private var origin: String {
        guard let place = place.value else { return value.value == nil ? "not set" : "default" }
        return printable(place) + (isFixed ? " (fixed)" : "")
    }

    fileprivate var row: Layout.Row {
        let value = printable(value.value ?? "")
        return Layout.Row(
            script: [name, value, origin].filter { !$0.isEmpty }.joined(separator: "  "),
            cells: [Layout.Cell(name), Layout.Cell(value), Layout.Cell(origin)])
    }
}

struct SettingListReport: Report {
    let settings: [SettingReport]

    var layout: Layout { .table(["NAME", "VALUE", "SOURCE"], settings.map(\.row)) }
}
