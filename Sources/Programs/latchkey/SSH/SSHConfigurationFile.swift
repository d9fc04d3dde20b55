import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyServices
import SystemPackage

/// The user's configuration file of ssh, `~/.ssh/config`, as bytes: ssh accepts any encoding.
struct SSHConfigurationFile {
    private static let heading = "# latchkey-agent"
    private static let agentPrefix = "    IdentityAgent "
    private static let allHosts = "Host *"
    private static let lineFeed = UInt8(ascii: "\n")

    /// The hosts; empty for all.
    private let hosts: [String]
    private let agentPath: String
    /// The file, or its target if it is a symbolic link.
    let path: String
    /// The path before a link is followed.
    private let configured: String
    private let directory: String

    /// - Parameter agentPath: The value of ``AgentSocket/sshPath()``.
    init(home: String, agentPath: String, hosts: [String]) {
        (self.agentPath, self.hosts) = (agentPath, hosts)
        directory = "\(home)/.ssh"
        configured = "\(directory)/config"
        path = URL(filePath: configured).resolvingSymlinksInPath().path
    }

    /// The lines that direct ssh to the agent. After those for single hosts, the options at the
    /// begin of the file are again for all hosts.
    var lines: String {
        let lines = [Self.heading, section, "\(Self.agentPrefix)\(agentPath)"]
        return (lines + (section == Self.allHosts ? [] : [Self.allHosts])).joined(separator: "\n")
    }

    /// The place of the lines. ssh uses the first value of an option, so the last lines are a
    /// default for the hosts that name no agent.
    var place: String { hosts.isEmpty ? "the last ones" : "the first ones" }

    var scope: String { "For \(Self.hosts(section))" }

    private var section: String {
        hosts.isEmpty ? Self.allHosts : "Host \(hosts.joined(separator: " "))"
    }

    /// The hosts of a line `Host`, as a part of a sentence.
    private static func hosts(_ section: String) -> String {
        guard section != allHosts else { return "all hosts" }
        return printable(section.split(separator: " ").dropFirst().joined(separator: ", "))
    }

    /// The line `Host` of the lines that ``add()`` wrote.
    private static func section(of own: ArraySlice<UInt8>) -> String? {
        own.split(separator: lineFeed).dropFirst().first.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether the file contains the lines: those for all hosts below the sections for others.
    func isComplete() throws -> Bool {
        let text = try contents()
        guard let range = Self.ownLines(in: text), Array(text[range]) == Array(lines.utf8) else {
            return false
        }
        guard hosts.isEmpty else { return true }
        // Options below the lines are for all hosts too. Without the lines above them, they would
        // be for the hosts of an earlier section.
        let next = text[range.upperBound...].split(separator: Self.lineFeed).map(Self.words)
            .first { $0.first.map { !$0.hasPrefix("#") } ?? false }
        return !["host", "match"].contains(next?[0].lowercased())
    }

    /// Puts the lines into the file at their place, and removes earlier ones. Keeps its mode.
    ///
    /// - Returns: The hosts of the removed lines, if they are others; nil otherwise.
    func add() throws -> String? {
        let present = try contents()
        guard try !isComplete() else { return nil }
        let earlier = Self.ownLines(in: present).map { present[$0] }
        let rest = Self.withoutOwnLines(present)
        let block = Array(lines.utf8)
        var text: [UInt8]
        if rest.isEmpty {
            text = block + [Self.lineFeed]
        } else if !hosts.isEmpty {
            text = block + [Self.lineFeed, Self.lineFeed] + rest
        } else if rest.last == Self.lineFeed {
            text = rest + [Self.lineFeed] + block + [Self.lineFeed]
        } else {
            // Without a line feed at the end, as before, so that the file can be restored.
            text = rest + [Self.lineFeed, Self.lineFeed] + block
        }
        try write(text)
        let former = earlier.flatMap(Self.section)
        return former == section ? nil : former.map(Self.hosts)
    }

    /// Restores the file as it was before ``add()``.
    ///
    /// - Returns: The removed lines; nil if there were none.
    func remove() throws -> String? {
        let text = try contents()
        guard let range = Self.ownLines(in: text) else { return nil }
        try OwnPlace.check(configured)
        let rest = Self.withoutOwnLines(text)
        if rest.isEmpty {
            guard unlink(path) == 0 else { throw unwritable(SystemError.last) }
        } else {
            try write(rest)
        }
        return String(decoding: text[range], as: UTF8.self)
    }

    /// The other lines `IdentityAgent`, with the line of their hosts.
    func otherAgents() throws -> [String] {
        var (section, found): (String, [String]) = ("", [])
        for line in Self.withoutOwnLines(try contents()).split(separator: Self.lineFeed) {
            let words = Self.words(line)
            switch words.first?.lowercased() {
            case "host"?, "match"?: section = words.joined(separator: " ") + ": "
            case "identityagent"?: found.append(section + words.joined(separator: " "))
            default: break
            }
        }
        return found
    }

    // MARK: Bytes

    private static func words(_ line: ArraySlice<UInt8>) -> [Substring] {
        String(decoding: line, as: UTF8.self).split { $0.isWhitespace || $0 == "=" }
    }

    /// The three or four lines that ``add()`` wrote, without the last line feed.
    private static func ownLines(in text: [UInt8]) -> Range<Int>? {
        let end = [lineFeed] + Array(allHosts.utf8)
        var (start, own): (Int, [(kind: String, start: Int)]) = (0, [])
        for line in text.split(separator: lineFeed, omittingEmptySubsequences: false) {
            let content = String(decoding: line, as: UTF8.self)
            if content == heading {
                own = [(content, start)]
            } else if own.count == 1, content.hasPrefix("Host ") {
                own.append((content, start))
            } else if own.count == 2, content.hasPrefix(agentPrefix),
                content.hasSuffix(AgentSocket.name)
            {
                let rest = text[(start + line.count)...]
                let hasEnd =
                    own[1].kind != allHosts && rest.starts(with: end)
                    && [nil, lineFeed].contains(rest.dropFirst(end.count).first)
                return own[0].start..<(start + line.count + (hasEnd ? end.count : 0))
            } else {
                own = []
            }
            start += line.count + 1
        }
        return nil
    }

    private static func withoutOwnLines(_ text: [UInt8]) -> [UInt8] {
        guard let range = ownLines(in: text) else { return text }
        var (before, after) = (text[..<range.lowerBound], text[range.upperBound...])
        if before.isEmpty {
            // The end of the last line, and an empty line.
            for _ in 0..<2 where after.first == lineFeed { after = after.dropFirst() }
        } else {
            // An empty line, and an end of a line: the one that the lines have, or the one that the
            // line before them got.
            if before.suffix(2) == [lineFeed, lineFeed] { before = before.dropLast() }
            if after.first == lineFeed {
                after = after.dropFirst()
            } else if after.isEmpty {
                before = before.dropLast()
            }
        }
        return Array(before + after)
    }

    /// The bytes of the file; none if it does not exist.
    private func contents() throws -> [UInt8] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        do { return Array(try Data(contentsOf: URL(filePath: path))) } catch {
            throw KeystoreError(
                code: .unavailable, reason: "\(path) cannot be read\(Self.cause(of: error))",
                recovery: "Check its type and its permissions.")
        }
    }

    private func write(_ text: [UInt8]) throws {
        try OwnPlace.check(configured)
        let mode = (try? Stat(FilePath(path)))?.permissions.rawValue ?? 0o600
        do {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            try Data(text).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw unwritable(error)
        }
        chmod(path, mode)
    }

    private func unwritable(_ error: any Error) -> KeystoreError {
        KeystoreError(
            code: .unavailable, reason: "\(path) cannot be changed\(Self.cause(of: error))",
            recovery: "Edit it as ‘latchkey ssh install’ shows.")
    }

    private static func cause(of error: any Error) -> String {
        if let error = error as? SystemError { return ": \(error)" }
        let cause = (error as? CocoaError)?.underlying as? POSIXError
        return cause.map { ": \(SystemError($0.code.rawValue))" } ?? ""
    }
}
