internal import FoundationEssentials
internal import Glibc

/// The PAM configuration of this machine, as far as the sign-in depends on it. Reads files only.
package struct SignInStack: Sendable {
    /// One line of a stack, after all files that it includes.
    package struct Line: Hashable, Sendable {
        /// `auth`, `account`, `password` or `session`.
        package let type: String
        /// The module's file name, for example `pam_unix.so`.
        package let module: String
        package let arguments: [String]
        /// The file with the line.
        package let file: String
    }

    package static let module = "pam_latchkey.so"
    /// Modules that need the typed password in later lines, so that a sign-in with a PIN does not
    /// give them their key or ticket.
    private static let needingPassword: Set = [
        "pam_ecryptfs.so", "pam_fscrypt.so", "pam_krb5.so", "pam_mount.so", "pam_sss.so",
        "pam_systemd_home.so", "pam_winbind.so", "pam_zfs_key.so",
    ]
    private static let maximumDepth = 16
    private static let maximumFile = 65_536
    private static let maximumLines = 1000

    private let root: String

    /// - Parameter root: The directory in place of `/`, for tests.
    package init(root: String = "") { self.root = root }

    /// The lines of a service, nil if the machine has no file of it.
    package func lines(of service: String) -> [Line]? {
        guard let path = path(of: service) else { return nil }
        var lines: [Line] = []
        add(path, only: nil, depth: 0, to: &lines)
        return lines
    }

    /// Whether a module's file is installed.
    package func isInstalled(_ module: String = SignInStack.module) -> Bool {
        var directories = ["/lib/security", "/usr/lib/security", "/usr/lib64/security"]
        for library in ["/usr/lib", "/lib"] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: root + library)) ?? []
            directories += names.filter { $0.hasSuffix("-linux-gnu") }
                .map { "\(library)/\($0)/security" }
        }
        return directories.contains { access("\(root)\($0)/\(module)", F_OK) == 0 }
    }

    /// A service whose stack has a sign-in module, the first that exists: Debian's generated file,
    /// or that of other systems.
    package var commonService: String? {
        ["common-auth", "system-auth", "login"].first { path(of: $0) != nil }
    }

    /// The modules of the common stack that need the typed password.
    package var modulesNeedingPassword: [String] {
        let services = ["common-auth", "common-session", "system-auth", "login", "gdm-password"]
        let modules = services.compactMap(lines(of:)).joined().map(\.module)
        return Set(modules).intersection(Self.needingPassword).sorted()
    }

    /// The lines of pam_kwallet5, which asks for the password again after a PIN.
    package var walletLines: [Line] {
        ["sddm", "gdm-password", "lightdm", "login", "kde"].compactMap(lines(of:)).joined()
            .reduce(into: []) { unique, line in
                let isWallet = ["pam_kwallet5.so", "pam_kwallet.so"].contains(line.module)
                if isWallet, ["auth", "session"].contains(line.type), !unique.contains(line) {
                    unique.append(line)
                }
            }
    }

    /// Whether GNOME's stack for fingers names fprintd's module, whose finger opens no keyring; nil
    /// without that stack.
    package var gdmUsesFprintd: Bool? {
        lines(of: "gdm-fingerprint").map { lines in
            lines.contains { $0.type == "auth" && $0.module == "pam_fprintd.so" }
        }
    }

    private func path(of service: String) -> String? {
        guard !service.isEmpty, !service.contains("/"), !service.hasPrefix(".") else { return nil }
        return ["/etc/pam.d", "/usr/lib/pam.d", "/usr/share/pam.d"]
            .map { "\(root)\($0)/\(service)" }.first { access($0, R_OK) == 0 }
    }

    private func add(_ path: String, only type: String?, depth: Int, to lines: inout [Line]) {
        guard depth < Self.maximumDepth, let text = Self.contents(of: path) else { return }
        let joined = text.replacing("\\\n", with: " ")
        for line in joined.split(separator: "\n") where lines.count < Self.maximumLines {
            let words = Self.words(of: line.prefix { $0 != "#" })
            if words.count == 2, words[0] == "@include" {
                include(words[1], only: type, depth, &lines)
                continue
            }
            guard words.count >= 3 else { continue }
            let kind = words[0].hasPrefix("-") ? String(words[0].dropFirst()) : words[0]
            guard type == nil || kind == type else { continue }
            if ["include", "substack"].contains(words[1]) {
                include(words[2], only: kind, depth, &lines)
            } else {
                lines.append(
                    Line(
                        type: kind,
                        module: words[2].split(separator: "/").last.map(String.init) ?? "",
                        arguments: Array(words.dropFirst(3)), file: path))
            }
        }
    }

    private func include(_ name: String, only type: String?, _ depth: Int, _ lines: inout [Line]) {
        let path = name.hasPrefix("/") ? root + name : path(of: name)
        if let path { add(path, only: type, depth: depth + 1, to: &lines) }
    }

    /// The words of a line; brackets keep theirs together.
    private static func words(of line: Substring) -> [String] {
        var words: [String] = []
        var rest = line.drop(while: \.isWhitespace)
        while let first = rest.first {
            let end =
                first == "["
                ? rest.firstIndex(of: "]").map { rest.index(after: $0) }
                : rest.firstIndex(where: \.isWhitespace)
            words.append(String(rest[..<(end ?? rest.endIndex)]))
            rest = rest[(end ?? rest.endIndex)...].drop(while: \.isWhitespace)
        }
        return words
    }

    private static func contents(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        var bytes = [UInt8](repeating: 0, count: maximumFile)
        let count = read(descriptor, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
