internal import Crypto
internal import FoundationEssentials

/// The names of host keys, from OpenSSH's files `known_hosts` (sshd(8), "SSH_KNOWN_HOSTS FILE
/// FORMAT").
///
/// Names in hashed lines can be compared with a name, and not read.
package struct KnownHosts: Sendable {
    private struct Line: Sendable {
        let patterns: [Substring]
        let fingerprint: String
        let isRevoked: Bool
    }

    /// The maximum size of a file in bytes that is read.
    private static let maximumBytes = 8 << 20
    private let lines: [Line]
    /// The files that exist and cannot be read, or are too long. They could revoke any key.
    package private(set) var unreadable: [String] = []

    /// - Parameter texts: The contents of the files, in order of precedence.
    package init(_ texts: [String]) {
        lines = texts.flatMap { $0.split(whereSeparator: \.isNewline).compactMap(Self.line) }
    }

    /// Reads the files that exist.
    package init(files: [String]) {
        var (texts, unreadable) = ([String](), [String]())
        for path in files {
            do {
                let size =
                    try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? .max
                guard size <= Self.maximumBytes,
                    let bytes = FileManager.default.contents(atPath: path)
                else {
                    unreadable.append(path)
                    continue
                }
                texts.append(String(decoding: bytes, as: UTF8.self))
            } catch let error as CocoaError
                where error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile
            {
                continue
            } catch {
                unreadable.append(path)
            }
        }
        self.init(texts)
        self.unreadable = unreadable
    }

    /// OpenSSH's default files.
    package static func defaultFiles(home: String?) -> [String] {
        (home.map { ["\($0)/.ssh/known_hosts", "\($0)/.ssh/known_hosts2"] } ?? [])
            + ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
    }

    private static func line(_ text: Substring) -> Line? {
        var words = text.split { $0 == " " || $0 == "\t" }[...]
        guard let first = words.first, !first.hasPrefix("#") else { return nil }
        let marker = first.hasPrefix("@") ? words.popFirst() : nil
        // The key of an authority is not a host's.
        guard words.count >= 3, marker == nil || marker == "@revoked",
            let names = words.first,
            let blob = Data(base64Encoded: String(words[words.startIndex + 2]))
        else { return nil }
        return Line(
            patterns: names.split(separator: ","), fingerprint: SSHPublicKey.fingerprint(of: blob),
            isRevoked: marker != nil)
    }

    /// The first readable name of a host key; nil if no line names it.
    package func name(of key: HostKey) -> String? {
        let fingerprint = key.fingerprint
        for line in lines where line.fingerprint == fingerprint && !line.isRevoked {
            if let name = line.patterns.first(where: {
                !$0.hasPrefix("|") && !$0.contains { "*?!".contains($0) }
            }) {
                return String(name)
            }
        }
        return nil
    }

    /// Whether a line with the marker `@revoked` names the key, or could: in an unreadable file.
    package func isRevoked(_ key: HostKey) -> Bool {
        guard unreadable.isEmpty else { return true }
        let fingerprint = key.fingerprint
        return lines.contains { $0.isRevoked && $0.fingerprint == fingerprint }
    }

    /// The fingerprints of a host's keys. A name with another port than 22 has the form
    /// `[host]:port`.
    package func fingerprints(of host: String) -> Set<String> {
        let matching = lines.filter { line in line.patterns.contains { Self.matches($0, host) } }
        let revoked = Set(lines.filter(\.isRevoked).map(\.fingerprint))
        return Set(matching.map(\.fingerprint)).subtracting(revoked)
    }

    /// Compares a plain or a hashed name: `|1|salt|HMAC-SHA1(salt, name)`, both in base64.
    private static func matches(_ pattern: Substring, _ host: String) -> Bool {
        guard pattern.hasPrefix("|1|") else { return pattern.lowercased() == host.lowercased() }
        let parts = pattern.split(separator: "|")
        guard parts.count == 3, let salt = Data(base64Encoded: String(parts[1])),
            let digest = Data(base64Encoded: String(parts[2]))
        else { return false }
        return HMAC<Insecure.SHA1>.isValidAuthenticationCode(
            digest, authenticating: Data(host.lowercased().utf8), using: SymmetricKey(data: salt))
    }
}
