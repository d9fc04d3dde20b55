internal import CPKCS11
internal import FoundationEssentials
internal import Glibc

/// The modules that p11-kit is configured with (pkcs11.conf(5)): one file `NAME.module` each, with lines `key: value`.
///
/// p11-kit itself loads them all or says nothing of those that fail; here each is then loaded by its own path, and a
/// failure is shown.
struct ConfiguredModules: Sendable {
    /// A configured module.
    struct Entry: Hashable, Sendable {
        /// The file's name without `.module`.
        let name: String
        /// As it is written: absolute, or a name in ``moduleDirectory``.
        let path: String
    }

    /// In the order in which they are listed: by name.
    let entries: [Entry]

    /// Where p11-kit looks for a module without a path: `pkcs11` beside p11-kit's own library.
    static let moduleDirectory: String = {
        let path = latchkey_p11_kit_file().map { String(cString: $0) } ?? ""
        return (path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "/usr/lib") + "/pkcs11"
    }()

    /// From the package's directory to the user's, later ones overriding. The user's is not read for root, as in p11-kit.
    static var directories: [String] {
        let system = ["/usr/share/p11-kit/modules", "/etc/pkcs11/modules"]
        guard getuid() != 0, geteuid() == getuid() else { return system }
        let environment = ProcessInfo.processInfo.environment
        // A relative path is to be ignored (XDG Base Directory Specification): it would mean the working directory.
        func absolute(_ name: String) -> String? { environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil } }
        guard let home = absolute("XDG_CONFIG_HOME") ?? absolute("HOME").map({ "\($0)/.config" }) else { return system }
        return system + ["\(home)/pkcs11/modules"]
    }

    /// - Parameter program: by whose name modules are enabled and disabled.
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
                // What only holds certificates that the system trusts is no place for keys.
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
