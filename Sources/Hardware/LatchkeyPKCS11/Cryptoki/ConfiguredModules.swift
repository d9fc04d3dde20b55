internal import CPKCS11
internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// The modules that p11-kit configures (pkcs11.conf(5)): one file `NAME.module` each, with lines
/// `key: value`.
///
/// p11-kit's own function loads all modules at once and reports no failure. It does not check who
/// can change a module's file, and holds a lock in each library's initializer, so that a module
/// that hangs would block all others. Here p11-kit loads each module by its path, after
/// ``SharedObject/check(_:)``. p11-kit tells the settings only of modules that it loaded itself.
struct ConfiguredModules: Sendable {
    /// A configured module.
    struct Entry: Hashable, Sendable {
        /// The file's name without `.module`.
        let name: String
        /// The configured path: absolute, or a name in ``moduleDirectory``.
        let path: String
        /// The text that `C_Initialize` gets in `pReserved` (`x-init-reserved`), for example NSS
        /// softoken's database.
        let parameters: String?
    }

    /// A folder `pkcs11` with the file `pkcs11.conf`, and the folders of modules that belong to it.
    struct Source: Sendable {
        var settings: String
        var modules: [String]
    }

    /// The modules, sorted by name.
    let entries: [Entry]
    /// The names of the files with `remote:`, which p11-kit starts or connects to itself.
    let remotes: [String]
    /// The paths of the files that other users can write. They could name a module that reads each
    /// PIN.
    let untrusted: [String]

    /// The directory of modules without a path: `pkcs11` in the directory of p11-kit's library.
    static let moduleDirectory: String = {
        let path = latchkey_p11_kit_file().map { String(cString: $0) } ?? ""
        return (path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "/usr/lib") + "/pkcs11"
    }()

    /// The system's configuration. The modules of later folders override earlier ones.
    static let system = Source(
        settings: "/etc/pkcs11/pkcs11.conf",
        modules: ["/usr/share/p11-kit/modules", "/etc/pkcs11/modules"])

    /// The user's configuration; nil for root and if `P11_KIT_NO_USER_CONFIG` is set, as in
    /// p11-kit.
    static var user: Source? {
        let environment = ProcessInfo.processInfo.environment
        guard getuid() != 0, geteuid() == getuid(), environment["P11_KIT_NO_USER_CONFIG"] == nil
        else { return nil }
        // Relative paths are ignored (XDG Base Directory Specification): they would depend on the
        // working directory.
        func absolute(_ name: String) -> String? {
            environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        guard let home = absolute("XDG_CONFIG_HOME") ?? absolute("HOME").map({ "\($0)/.config" })
        else { return nil }
        return Source(settings: "\(home)/pkcs11/pkcs11.conf", modules: ["\(home)/pkcs11/modules"])
    }

    /// - Parameter program: The program for which modules are enabled or disabled.
    init(
        system: Source = system, user: Source? = user,
        program: String = CommandLine.arguments.first ?? ""
    ) {
        var settings: [String: [String: String]] = [:]
        var untrusted: [String] = []
        for directory in Self.directories(system, user) {
            let files = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            for file in files.sorted() where file.hasSuffix(".module") {
                guard (try? TrustedFile.check("\(directory)/\(file)")) != nil else {
                    untrusted.append("\(directory)/\(file)")
                    continue
                }
                settings[String(file.dropLast(".module".count)), default: [:]]
                    .merge(Self.settings(in: "\(directory)/\(file)")) { $1 }
            }
        }
        let program = program.split(separator: "/").last.map(String.init) ?? program
        self.untrusted = untrusted
        remotes = settings.filter {
            $1["module"] == nil && $1["remote"] != nil && Self.isEnabled($1, for: program)
        }.keys.sorted()
        entries = settings.sorted { $0.key < $1.key }.compactMap { name, settings in
            guard let path = settings["module"], !path.isEmpty,
                Self.isEnabled(settings, for: program),
                // A trust module contains only certificates.
                settings["trust-policy"] != "yes"
            else { return nil }
            return Entry(name: name, path: path, parameters: settings["x-init-reserved"])
        }
    }

    /// The parameters of the first configured module with this file, whose path has no symbolic
    /// links.
    func parameters(ofFile file: String) -> String? {
        entries.first { (try? Module.resolve($0.path)) == file }?.parameters
    }

    /// The directories that `user-config` selects. p11-kit fails for another value; here the user's
    /// modules are then ignored.
    private static func directories(_ system: Source, _ user: Source?) -> [String] {
        let mode = settings(in: system.settings)["user-config"] ?? "merge"
        guard let user, mode != "none" else { return system.modules }
        return switch settings(in: user.settings)["user-config"] ?? mode {
        case "merge": system.modules + user.modules
        case "only", "override": user.modules
        default: system.modules
        }
    }

    private static func settings(in path: String) -> [String: String] {
        guard let data = FileManager.default.contents(atPath: path), data.count <= 64 * 1024 else {
            return [:]
        }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n").map(\.trimmed)
        return lines.reduce(into: [:]) { settings, line in
            guard !line.hasPrefix("#"), let colon = line.firstIndex(of: ":") else { return }
            settings[String(line[..<colon].trimmed)] = String(
                line[line.index(after: colon)...].trimmed)
        }
    }

    /// `disable-in` has no effect next to `enable-in`.
    private static func isEnabled(_ settings: [String: String], for program: String) -> Bool {
        func names(_ key: String) -> [Substring]? {
            settings[key]?.split { $0 == "," || $0 == " " || $0 == "\t" }
        }
        if let enabled = names("enable-in") { return enabled.contains(program[...]) }
        return names("disable-in")?.contains(program[...]) != true
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let isBlank = { (character: Character) in
            character == " " || character == "\t" || character == "\r"
        }
        guard let first = firstIndex(where: { !isBlank($0) }),
            let last = lastIndex(where: { !isBlank($0) })
        else {
            return ""
        }
        return self[first...last]
    }
}
