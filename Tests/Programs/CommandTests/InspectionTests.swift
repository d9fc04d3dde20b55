import FoundationEssentials
import Glibc
import LatchkeyTesting
import SystemPackage
import Testing

/// Another process of the same unprivileged user tries to read the programs' memory.
@Suite(
    .requires(program: "python3"), .requires(program: "setpriv"),
    .enabled(if: geteuid() == 0, "needs root, to become another user"), .timeLimit(.minutes(15)))
struct InspectionTests {
    /// Starts a program, waits until it runs, and tries to read its memory. A parent may do that to
    /// its child unless Yama forbids it (`ptrace_scope` 2 or more).
    private static let watcher = #"""
        import ctypes, json, os, select, signal, socket, subprocess, sys, tempfile
        signal.alarm(300)
        directory = tempfile.mkdtemp()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(directory + '/tpm'); listener.listen()
        control = socket.socket(socket.AF_UNIX)
        control.bind(directory + '/tpm.ctrl'); control.listen()
        environment = dict(os.environ, LATCHKEY_TCTI='swtpm:path=' + directory + '/tpm', TSS2_LOG='all+NONE',
                           LATCHKEY_STORE=directory, STATE_DIRECTORY=directory, HOME=directory)
        process = subprocess.Popen(sys.argv[1:], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        # A program that uses the TPM waits for it now; the others say that they are ready.
        ready = select.select([listener, control, process.stdout], [], [], 50)[0]
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        found = []
        for name in ['mem', 'environ', 'maps']:
            try:
                with open(f'/proc/{process.pid}/{name}', 'rb'): found.append(name)
            except PermissionError: pass
        try: found += ['fd'] if os.listdir(f'/proc/{process.pid}/fd') else []
        except PermissionError: pass
        if libc.ptrace(16, process.pid, None, None) == 0:  # PTRACE_ATTACH
            found.append('ptrace')
            os.waitpid(process.pid, 0)
        ended = 'ptrace' not in found and process.poll() is not None
        os.kill(process.pid, signal.SIGKILL)
        print(json.dumps({'ready': bool(ready), 'ended': ended, 'found': found}))
        """#

    private struct Sight: Decodable {
        let ready: Bool
        let ended: Bool
        let found: [String]
    }

    private func look(at command: [String]) async throws -> Sight {
        let text = try await program(
            "setpriv",
            [
                "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                Self.watcher,
            ] + command)
        return try JSONDecoder().decode(Sight.self, from: Data(text.utf8))
    }

    @Test(arguments: [
        [Products.latchkey.string, "doctor"], [Products.presenceBroker.string],
        [Products.identityServer.string, "serve", "--demo"],
    ])
    func `another process of the user can neither read nor trace the program`(_ command: [String])
        async throws
    {
        let sight = try await look(at: command)
        #expect(sight.ready && !sight.ended)
        #expect(sight.found.isEmpty)
    }

    @Test func `a program without protection can be read`() async throws {
        let sight = try await look(at: [
            "/usr/bin/python3", "-uc", "print('ready'); __import__('time').sleep(60)",
        ])
        #expect(sight.found == ["mem", "environ", "maps", "fd", "ptrace"])
    }
}
