import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Programs in the background of a terminal, whose input is for the shell.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct BackgroundTests {
    /// A shell with job control: the first argument says how it runs the command, and which keys
    /// are typed at the first prompt.
    private static let shell = """
        import os, pty, signal, sys
        mode, screen_file, command = sys.argv[1], sys.argv[2], sys.argv[3:]
        signal.alarm(300)
        pid, terminal = pty.fork()
        if pid == 0:
            shell = os.getpgrp()
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                while mode != "background" and os.tcgetpgrp(0) != os.getpgrp():
                    pass
                os.execv(command[0], command)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            while os.getpgid(child) == shell:
                pass
            def foreground(group):
                os.tcsetpgrp(0, group)
            if mode != "background":
                foreground(child)
                if os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
                    foreground(shell)
                    if mode == "fg":
                        foreground(child)
                    os.kill(child, signal.SIGCONT)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            foreground(shell)
            print("status", status, flush=True)
            os._exit(0)
        keys = {"fg": ["\\x1a", "258025\\r"], "bg": ["\\x1a"]}.get(mode, [])
        seen = b""
        try:
            while True:
                data = os.read(terminal, 4096)
                if not data:
                    break
                with open(screen_file, "ab") as file:
                    file.write(data)
                seen += data
                if keys and b"PIN: " in seen:
                    seen = b""
                    os.write(terminal, keys.pop(0).encode())
        except OSError:
            pass
        """

    private func screen(
        _ mode: String, _ machine: Machine, _ arguments: String...
    ) async throws -> String {
        let file = machine.directory.path(of: "screen-\(mode)")
        try await program(
            "python3",
            ["-c", Self.shell, mode, file, Products.latchkey.string] + arguments,
            environment: machine.environment)
        return try String(contentsOfFile: file, encoding: .utf8)
    }

    @Test func `a prompt is not shown in the background`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--json", pins: ["258025"]).json()
        let id = try #require(created["id"]?.string)
        let screen = try await screen("background", machine, "key", "sign", id, "/dev/null")
        #expect(screen.contains("status 7"), "\(screen)")
        #expect(screen.contains("runs in the background"), "\(screen)")
        #expect(!screen.contains("PIN:"))
        // The same for a question.
        let reset = try await self.screen("background", machine, "store", "reset")
        #expect(!reset.contains("Type ‘yes’"), "\(reset)")
    }

    /// A program with another name than pinentry-curses is known by its answer only.
    @Test(.requires(program: "pinentry-curses"), arguments: ["pinentry-curses", "form"])
    func `pinentry is refused in the background for the same reason`(name: String) async throws {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--json", pins: ["258025"]).json()
        let id = try #require(created["id"]?.string)
        let pinentry = machine.directory.path(of: name)
        try Data("#!/bin/sh\nexec /usr/bin/pinentry-curses \"$@\"\n".utf8).write(
            to: URL(filePath: pinentry))
        #expect(chmod(pinentry, 0o700) == 0)
        machine.environment["PINENTRY_PROGRAM"] = pinentry
        machine.environment["LATCHKEY_PIN_SOURCE"] = "pinentry"
        for terminal in [nil, "/dev/tty"] {
            machine.environment["GPG_TTY"] = terminal
            let screen = try await screen("background", machine, "key", "sign", id, "/dev/null")
            #expect(screen.contains("status 7"), "\(screen)")
            #expect(screen.contains("runs in the background"), "\(screen)")
            #expect(!screen.contains("GPG_TTY"), "\(screen)")
        }
    }

    @Test func `a stopped prompt continues in the foreground only`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--json", pins: ["258025"]).json()
        let id = try #require(created["id"]?.string)
        let front = try await screen("fg", machine, "key", "sign", id, "/dev/null")
        #expect(front.contains("status 0"), "\(front)")
        #expect(front.ranges(of: "PIN: ").count == 2, "\(front)")
        #expect(!front.contains("258025"))
        let back = try await screen("bg", machine, "key", "sign", id, "/dev/null")
        #expect(back.contains("status 7"), "\(back)")
        #expect(back.contains("runs in the background"), "\(back)")
        #expect(back.ranges(of: "PIN: ").count == 1, "\(back)")
    }
}
