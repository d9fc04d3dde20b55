import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import SystemPackage
import Testing

/// A transcript of a document: commands after `$ `, and the lines that the terminal shows.
///
/// `…` in a line stands for any text. A line that ends with `PIN:` or `again:` is a prompt, at which
/// the user types a PIN, and the text after `notes> ` is typed.
struct Transcript {
    struct Step {
        let command: String
        let lines: [String]
    }

    let steps: [Step]

    /// Reads the console block of a document that contains `text`.
    ///
    /// - Parameter path: The document, from the root folder of the repository.
    init(containing text: String, in path: String) throws {
        let document = try String(
            contentsOf: BuiltProduct.packageFolder.appending(path: path), encoding: .utf8)
        let blocks = document.components(separatedBy: "```console\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
        let block = try #require(
            blocks.first { $0.contains(text) }, "\(path) has no transcript with ‘\(text)’")
        steps = block.components(separatedBy: "\n$ ").map { part in
            let lines = part.split(separator: "\n").map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            let command = lines[0].hasPrefix("$ ") ? String(lines[0].dropFirst(2)) : lines[0]
            return Step(command: command, lines: Array(lines.dropFirst()))
        }
    }

    /// Runs the commands on a terminal, in the machine's folder, and compares what it shows.
    func check(on machine: Machine) async throws {
        for step in steps {
            let shown = try await Self.run(step, on: machine)
            #expect(
                shown.count == step.lines.count
                    && zip(shown, step.lines).allSatisfy { Self.matches($0, $1) },
                "\(step.command):\n\(shown.joined(separator: "\n"))")
        }
    }

    /// Runs a command, and types at the prompts that its lines have.
    ///
    /// - Returns: The lines that the terminal shows.
    static func run(_ step: Step, on machine: Machine, pin: String = "258036") async throws
        -> [String]
    {
        let keys = step.lines.compactMap { line -> String? in
            if line.hasPrefix("notes> ") { return String(line.dropFirst(7)) }
            return line.hasSuffix("PIN:") || line.hasSuffix("again:") ? pin : nil
        }
        let command = step.command.replacing(
            ".build/debug/", with: "\(Products.directory.string)/")
        return try await screen(of: command, typing: keys, on: machine)
    }

    /// The lines that a command shows on a terminal of its own.
    private static func screen(
        of command: String, typing keys: [String], on machine: Machine
    ) async throws -> [String] {
        let input = String(decoding: try JSONEncoder().encode(keys), as: UTF8.self)
        let screen = try await program(
            "python3", ["-c", typist, input, machine.directory.path, command],
            environment: machine.environment)
        return screen.split(whereSeparator: \.isNewline).map {
            $0.trimmingCharacters(in: .whitespaces)
        }.filter { !$0.isEmpty }
    }

    private static func matches(_ line: String, _ pattern: String) -> Bool {
        var rest = line[...]
        let parts = pattern.components(separatedBy: "…")
        for (index, part) in parts.enumerated() where !part.isEmpty {
            guard let found = rest.firstRange(of: part) else { return false }
            if index == 0 && found.lowerBound != line.startIndex { return false }
            rest = rest[found.upperBound...]
        }
        return rest.isEmpty || pattern.hasSuffix("…")
    }

    /// Runs a command of the shell on a new terminal, and types one line at each prompt.
    private static let typist = """
        import json, os, pty, re, signal, sys
        keys, folder, command = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
        signal.alarm(300)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execv("/bin/sh", ["sh", "-c", command])
        # On a machine without systemd-logind, as in a container, at any time after the start.
        notice = re.compile(rb"Could not observe the session's locks[^\\n]*\\n")
        screen, typed = b"", 0
        try:
            while data := os.read(terminal, 4096):
                screen = notice.sub(b"", screen + data)
                if keys and re.search(rb"(PIN|again): $|notes> $", screen[typed:]):
                    typed = len(screen)
                    os.write(terminal, keys.pop(0).encode() + b"\\r")
        except OSError:
            pass
        os.waitpid(pid, 0)
        sys.stdout.write(screen.decode())
        """
}
