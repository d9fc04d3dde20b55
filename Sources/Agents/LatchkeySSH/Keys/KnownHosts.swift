internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// The names of host keys, from OpenSSH's files `known_hosts` (sshd(8), "SSH_KNOWN_HOSTS FILE
/// FORMAT").
///
/// Names in hashed lines can be compared with a name, and not read.
package struct KnownHosts: Sendable {
    private struct Line: Sendable {
        enum Marker: String { case authority = "@cert-authority", revoked = "@revoked" }

        let patterns: [Substring]
        let fingerprint: String
        let marker: Marker?

        /// The patterns that are the name of one host, and the negated ones.
        var exactPatterns: [Substring] {
            patterns.filter { $0.hasPrefix("!") || !KnownHosts.isWild($0) }
        }

        /// The first pattern that can be for several hosts.
        var wildPattern: Substring? {
            patterns.first { !$0.hasPrefix("!") && KnownHosts.isWild($0) }
        }
    }

    /// What the files say about the name of a host key.
    package enum Name: Hashable, Sendable {
        /// The name in a line, or a name that a hashed line confirms. Also a name in the key's
        /// certificate, which a line of its authority has.
        case name(String)
        /// The key is in hashed lines only.
        case hashed
        /// A line with this pattern has the key or the authority of its certificate. The pattern
        /// can be for several hosts, so it confirms none of their names.
        case pattern(String)
        /// No line names the key.
        case absent
    }

    /// The maximum size of a file in bytes that is read.
    private static let maximumBytes = 8 << 20
    private let lines: [Line]
    /// The files that exist and cannot be read, or are too long. They could revoke any key.
    package let unreadable: [String]
    /// The files that other users can write. Their lines revoke keys, and name none.
    package let untrusted: [String]

    /// - Parameter texts: The contents of the files, in order of precedence.
    package init(_ texts: [String]) {
        lines = texts.flatMap { $0.split(whereSeparator: \.isNewline).compactMap(Self.line) }
        (unreadable, untrusted) = ([], [])
    }

    /// Reads the files that exist.
    package init(files: [String]) {
        var (lines, unreadable, untrusted) = ([Line](), [String](), [String]())
        for path in files {
            switch SSHFile.read(path, maximumBytes: Self.maximumBytes) {
            case .absent: break
            case .unreadable: unreadable.append(path)
            case .text(let text):
                let read = text.split(whereSeparator: \.isNewline).compactMap(Self.line)
                if (try? TrustedFile.check(path)) != nil {
                    lines += read
                } else {
                    lines += read.filter { $0.marker == .revoked }
                    untrusted.append(path)
                }
            }
        }
        (self.lines, self.unreadable, self.untrusted) = (lines, unreadable, untrusted)
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
        let known = marker.flatMap { Line.Marker(rawValue: String($0)) }
        guard words.count >= 3, (marker == nil) == (known == nil), let names = words.first,
            let blob = Data(base64Encoded: String(words[words.startIndex + 2]))
        else { return nil }
        return Line(
            patterns: names.split(separator: ","), fingerprint: SSHPublicKey.fingerprint(of: blob),
            marker: known)
    }

    /// The name of a host key, of its first line that has one.
    ///
    /// - Parameter candidates: Names to compare with hashed names.
    package func name(of key: HostKey, among candidates: HostNames = HostNames()) -> Name {
        let fingerprint = key.fingerprint
        let matching = lines.filter { $0.marker == nil && $0.fingerprint == fingerprint }
        let names = candidates.all
        for line in matching {
            if let name = line.patterns.first(where: { !Self.isHashed($0) && !Self.isWild($0) }) {
                return .name(String(name))
            }
            if let name = names.first(where: { Self.matches(line.exactPatterns, $0) }) {
                return .name(name)
            }
        }
        let certified = certifiedName(of: key)
        if case .name = certified { return certified }
        if matching.contains(where: { $0.patterns.contains(where: Self.isHashed) }) {
            return .hashed
        }
        if let pattern = matching.compactMap(\.wildPattern).first {
            return .pattern(String(pattern))
        }
        return certified
    }

    /// What lines with the marker `@cert-authority` say about the names in the key's certificate.
    private func certifiedName(of key: HostKey) -> Name {
        guard let certificate = key.certificate else { return .absent }
        let fingerprint = SSHPublicKey.fingerprint(of: certificate.authority)
        let accepting = lines.filter { $0.marker == .authority && $0.fingerprint == fingerprint }
        for line in accepting {
            if let name = certificate.principals.first(where: {
                Self.matches(line.exactPatterns, $0)
            }) {
                return .name(name)
            }
        }
        for line in accepting {
            for name in certificate.principals where Self.matches(line.patterns, name) {
                if let pattern = line.patterns.first(where: { Self.matches([$0], name) }) {
                    return .pattern(String(pattern))
                }
            }
        }
        return .absent
    }

    /// Whether a line with the marker `@revoked` names the key or the authority of its certificate,
    /// or could: in an unreadable file.
    package func isRevoked(_ key: HostKey) -> Bool {
        guard unreadable.isEmpty else { return true }
        let authority = key.certificate.map { SSHPublicKey.fingerprint(of: $0.authority) }
        let fingerprints = [key.fingerprint, authority]
        return lines.contains { $0.marker == .revoked && fingerprints.contains($0.fingerprint) }
    }

    /// The fingerprints of a host's keys. A name with another port than 22 has the form
    /// `[host]:port`.
    package func fingerprints(of host: String) -> Set<String> {
        let matching = lines.filter { line in
            line.marker != .authority && line.patterns.contains { Self.isName($0, host) }
        }
        let revoked = Set(lines.filter { $0.marker == .revoked }.map(\.fingerprint))
        return Set(matching.map(\.fingerprint)).subtracting(revoked)
    }

    private static func isHashed(_ pattern: Substring) -> Bool { pattern.hasPrefix("|") }

    private static func isWild(_ pattern: Substring) -> Bool {
        pattern.contains { "*?!".contains($0) }
    }

    /// Compares a plain or a hashed name: `|1|salt|HMAC-SHA1(salt, name)`, both in base64.
    private static func isName(_ pattern: Substring, _ host: String) -> Bool {
        guard pattern.hasPrefix("|1|") else { return pattern.lowercased() == host.lowercased() }
        let parts = pattern.split(separator: "|")
        guard parts.count == 3, let salt = Data(base64Encoded: String(parts[1])),
            let digest = Data(base64Encoded: String(parts[2]))
        else { return false }
        return HMAC<Insecure.SHA1>.isValidAuthenticationCode(
            digest, authenticating: Data(host.lowercased().utf8), using: SymmetricKey(data: salt))
    }

    /// Whether a line is for the host: one pattern matches, and no negated one (ssh_config(5),
    /// "PATTERNS").
    private static func matches(_ patterns: [Substring], _ host: String) -> Bool {
        func matches(_ pattern: Substring) -> Bool {
            isWild(pattern)
                ? isMatch(Array(pattern.lowercased().utf8)[...], Array(host.lowercased().utf8)[...])
                : isName(pattern, host)
        }
        return patterns.contains { !$0.hasPrefix("!") && matches($0) }
            && !patterns.contains { $0.hasPrefix("!") && matches($0.dropFirst()) }
    }

    /// Compares with `*` and `?`. Only the last `*` is tried again, so the time is limited.
    private static func isMatch(_ pattern: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> Bool {
        var (pattern, name) = (pattern, name)
        var retry: (pattern: ArraySlice<UInt8>, name: ArraySlice<UInt8>)?
        while !name.isEmpty {
            switch pattern.first {
            case UInt8(ascii: "*"):
                pattern = pattern.dropFirst()
                retry = (pattern, name)
            case UInt8(ascii: "?"), name.first:
                (pattern, name) = (pattern.dropFirst(), name.dropFirst())
            default:
                guard let last = retry else { return false }
                (pattern, name) = (last.pattern, last.name.dropFirst())
                retry = (pattern, name)
            }
        }
        return pattern.allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
