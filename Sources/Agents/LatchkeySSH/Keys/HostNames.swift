internal import FoundationEssentials

/// Names that a server may have, to compare with hashed names in `known_hosts`.
///
/// They come from sources that are not trusted, such as the command line of ssh. A match with a
/// hashed name proves the name.
package struct HostNames: Sendable {
    private static let maximumCount = 1024
    private static let maximumPorts = 16
    /// The maximum size of a configuration file in bytes that is read.
    private static let maximumBytes = 1 << 20

    private var hosts: [String] = []
    private var ports: [UInt16] = []

    package init() {}

    /// The names, and the names with each port: `[host]:port`.
    var all: [String] {
        hosts
            + hosts.filter { !$0.hasPrefix("[") }.flatMap { host in
                ports.map { "[\(host)]:\($0)" }
            }
    }

    /// Adds a name as `known_hosts` has it.
    package mutating func add(_ name: some StringProtocol) {
        let name = name.lowercased()
        guard !name.isEmpty, name.utf8.count <= 255, hosts.count < Self.maximumCount,
            !hosts.contains(name)
        else { return }
        hosts.append(name)
    }

    private mutating func add(port: some StringProtocol) {
        guard let port = UInt16(port), port != 22, ports.count < Self.maximumPorts,
            !ports.contains(port)
        else { return }
        ports.append(port)
    }

    /// Adds the names in the arguments of a client: `[USER@]HOST[:PORT]`, `ssh://…`, `HOST:PATH`,
    /// `-p PORT` and `-o OPTION=VALUE`.
    package mutating func add(arguments: some Sequence<String>) {
        var isPort = false
        for argument in arguments {
            if isPort { add(port: argument) }
            isPort = argument == "-p"
            if argument.hasPrefix("-p") { add(port: argument.dropFirst(2)) }
            let option = argument.hasPrefix("-o") ? argument.dropFirst(2) : argument[...]
            add(line: option)
            add(target: argument)
        }
    }

    /// OpenSSH's configuration files.
    package static func defaultFiles(home: String?) -> [String] {
        (home.map { ["\($0)/.ssh/config"] } ?? []) + ["/etc/ssh/ssh_config"]
    }

    /// Adds the names in the files of ssh_config(5) that exist.
    package mutating func add(configurations files: [String]) {
        for path in files {
            if case .text(let text) = SSHFile.read(path, maximumBytes: Self.maximumBytes) {
                add(configuration: text)
            }
        }
    }

    /// Adds the names in the text of ssh_config(5).
    package mutating func add(configuration text: String) {
        for line in text.split(whereSeparator: \.isNewline) { add(line: line) }
    }

    /// Adds the names in an option of ssh_config(5), `NAME VALUE` or `NAME=VALUE`.
    private mutating func add(line: Substring) {
        let words = line.split { $0 == " " || $0 == "\t" || $0 == "=" || $0 == "\"" }
        guard let option = words.first, words.count > 1 else { return }
        switch option.lowercased() {
        case "host": words.dropFirst().forEach { add($0) }
        case "hostname", "hostkeyalias": add(words[1])
        case "port": add(port: words[1])
        case "proxyjump": words[1].split(separator: ",").forEach { add(target: String($0)) }
        default: break
        }
    }

    private mutating func add(target: String) {
        var rest = target.hasPrefix("ssh://") ? target.dropFirst(6) : target[...]
        if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
        if target.hasPrefix("ssh://"), let slash = rest.firstIndex(of: "/") {
            rest = rest[..<slash]
        }
        add(rest)
        if rest.hasPrefix("["), let end = rest.lastIndex(of: "]") {
            add(rest[..<end].dropFirst())
            add(port: rest[end...].dropFirst(2))
        } else if let colon = rest.firstIndex(of: ":") {
            add(rest[..<colon])
            add(port: rest[colon...].dropFirst())
        }
    }
}
