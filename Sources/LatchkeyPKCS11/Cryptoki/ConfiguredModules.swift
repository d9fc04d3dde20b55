internal import CPKCS11
internal import FoundationEssentials
internal import Glibc

/// The modules that p11-kit configures (pkcs11.conf(5)): one file `NAME.module` each, with lines `key: value`.
///
/// p11-kit itself loads all modules or hides failures. Here each module is loaded by its path, and a failure is reported.
struct ConfiguredModules: Sendable {
    /// A configured module.
    struct Entry: Hashable, Sendable {
        /// The file's name without `.module`.
        let name: String
        /// The configured path: absolute, or a name in ``moduleDirectory``.
        let path: String
    }

    /// The modules, sorted by name.
    let entries: [Entry]

    /// The directory of modules without a path: `pkcs11` in the directory of p11-kit's library.
    static let moduleDirectory: String = {
        let path = latchkey_p11_kit_file().map { String(cString: $0) } ?? ""
        return (path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "/usr/lib") + "/pkcs11"
    }()

    /// The configuration directories; later ones override earlier ones. As in p11-kit, the user's is ignored for root.
    static var directories: [String] {
        let system = ["/usr/share/p11-kit/modules", "/etc/pkcs11/modules"]
        guard getuid() != 0, geteuid() == getuid() else { return system }
        let environment = ProcessInfo.processInfo.environment
        // Relative paths are ignored (XDG Base Directory Specification): they would depend on the working directory.
        func absolute(_ name: String) -> String? { environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil } }
        guard let home = absolute("XDG_CONFIG_HOME") ?? absolute("HOME").map({ "\($0)/.config" }) else { return system }
        return system + ["\(home)/pkcs11/modules"]
    }

    /// - Parameter program: The program for which modules are enabled or disabled.
    init(directories: [String] = directories, program: String = CommandLine.arguments.first ?? "") {
        var settings: [String: [String: String]] = [:]
        for directory in directories {
            let files = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            for file in files.sorted() where file.hasSuffix(".module") {
                settings[String(file.dropLast(".module".count)), default: [:]]
                    .merge(Self.settings(in: "\(directory)/\(file)")) { $1 }
            }
        }
        let program = program.split(separator: "/").last.map(String.init) ?? program
        entries = settings.sorted { $0.key < $1.key }.compactMap { name, settings in
            guard let path = settings["module"], !path.isEmpty, Self.isEnabled(settings, for: program),
                // A trust module contains only certificates.
                settings["trust-policy"] != "yes"
            else { return nil }
            return Entry(name: name, path: path)
        }
    }

    private static func settings(in path: String) -> [String: String] {
        guard let data = FileManager.default.contents(atPath: path), data.count <= 64 * 1024 else { return [:] }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
        return lines.reduce(into: [:]) { settings, line in
            guard !line.hasPrefix("#"), let colon = line.firstIndex(of: ":") else { return }
            settings[String(line[..<colon].trimmed)] = String(line[line.index(after: colon)...].trimmed)
        }
    }

    private static func isEnabled(_ settings: [String: String], for program: String) -> Bool {
        func names(_ key: String) -> [Substring]? {
            settings[key]?.split { $0 == "," || $0 == " " || $0 == "\t" }
        }
        if let enabled = names("enable-in"), !enabled.contains(program[...]) { return false }
        if let disabled = names("disable-in"), disabled.contains(program[...]) { return false }
        return true
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let isBlank = { (character: Character) in character == " " || character == "\t" || character == "\r" }
        guard let first = firstIndex(where: { !isBlank($0) }), let last = lastIndex(where: { !isBlank($0) }) else {
            return ""
        }
        return self[first...last]
    }
}
