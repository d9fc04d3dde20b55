import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// `latchkey passkey serve`, which runs the `latchkey-passkeys` in its folder, and
/// `latchkey-passkeys` as a process.
@Suite(.timeLimit(.minutes(15)))
struct PasskeyServeTests {
    /// Runs `body` with a hard link to `latchkey` in a new folder, which is among the built
    /// programs because a hard link cannot cross file systems.
    ///
    /// - Parameters:
    ///   - script: The script `latchkey-passkeys` in the same folder; nil for none.
    ///   - folderMode: The mode of the folder.
    ///   - scriptMode: The mode of the script.
    private func withLatchkey(
        script: String?, folderMode: mode_t = 0o755, scriptMode: mode_t = 0o755,
        _ body: (FilePath) async throws -> Void
    ) async throws {
        let folder = Products.directory.appending("siblings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            atPath: folder.string, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder.string) }
        let latchkey = folder.appending("latchkey")
        try FileManager.default.linkItem(atPath: Products.latchkey.string, toPath: latchkey.string)
        if let script {
            let path = folder.appending("latchkey-passkeys").string
            try Data(script.utf8).write(to: URL(filePath: path))
            try #require(chmod(path, scriptMode) == 0)
        }
        try #require(chmod(folder.string, folderMode) == 0)
        try await body(latchkey)
    }

    @Test func `serve starts the program in the same folder, with its options`() async throws {
        // The service must receive SIGTERM, so it must start with no signal blocked.
        let script = """
            #!/bin/sh
            printf '%s\\n' "$@"
            sed -n 's/^SigBlk:[[:space:]]*/blocked /p' /proc/self/status
            exit 5
            """
        try await withLatchkey(script: script) { latchkey in
            let outcome = try await Machine(tcti: nil).run(
                "passkey", "serve", "--store", "/a b", "--tcti", "swtpm:path=/x", "--container",
                "passkey",
                "--verbose", "--policy", "pin", "--relay", "/r", "--presence", "finger",
                "--token-login", "pin",
                "--allow-short-pin", "--endpoint", "https://a.example", program: latchkey)
            #expect(outcome.status == 5)
            #expect(
                outcome.output.split(separator: "\n").map(String.init) == [
                    "--container=passkey", "--store=/a b", "--tcti=swtpm:path=/x",
                    "--token-login=pin",
                    "--presence=finger", "--policy=pin", "--relay=/r", "--allow-short-pin",
                    "--verbose",
                    "blocked 0000000000000000",
                ])
            #expect(outcome.errors.isEmpty)
        }
    }

    @Test func `without the program, serve names its path and package`() async throws {
        try await withLatchkey(script: nil) { latchkey in
            let outcome = try await Machine(tcti: nil).run("passkey", "serve", program: latchkey)
            #expect(outcome.status == 7)
            let folder = latchkey.removingLastComponent().lastComponent?.string ?? ""
            #expect(
                outcome.errors.contains(
                    "/\(folder)/latchkey-passkeys cannot be started: No such file or directory"))
            #expect(outcome.errors.contains("Install the package latchkey-passkeys."))
        }
    }

    @Test(arguments: [(0o1777, 0o755), (0o775, 0o755), (0o755, 0o775)] as [(mode_t, mode_t)])
    func `serve starts no program that other users can write or replace`(
        folderMode: mode_t, scriptMode: mode_t
    ) async throws {
        let script = "#!/bin/sh\necho started\nexit 5\n"
        try await withLatchkey(script: script, folderMode: folderMode, scriptMode: scriptMode) {
            latchkey in
            let outcome = try await Machine(tcti: nil).run("passkey", "serve", program: latchkey)
            #expect(outcome.status == 1)
            #expect(outcome.output.isEmpty)
            #expect(
                outcome.errors.contains("/latchkey-passkeys is not trusted: other users can write"))
            #expect(
                outcome.errors.contains(
                    "Run latchkey in a directory in which only you and root can write"))
        }
    }

    @Test func `serve refuses wrong options before the program starts`() async throws {
        try await withLatchkey(script: "#!/bin/sh\nexit 5\n") { latchkey in
            let outcome = try await Machine(tcti: nil).run(
                "passkey", "serve", "--policy", "none", program: latchkey)
            #expect(outcome.status == 2)
        }
    }

    @Test(
        arguments: [
            (
                ["--relay", "/nonexistent/relay"], 7,
                "/nonexistent/relay: No such file or directory. Install the package"
            ),
            (["--tcti", "device:/etc/hostname"], 2, "Correct --tcti"),
            (["--policy", "none"], 2, "--policy"),
            (["--presence", "maybe"], 2, "--presence"),
            (["--pin-source", "fd:9"], 2, "descriptor 9 was not open when the program started"),
            (
                ["--pin-source", "fd:2"], 2,
                "descriptor 2, which is standard error, is open for writing only"
            ),
        ] as [([String], Int32, String)])
    func `the service's exit status tells systemd whether to restart it`(
        arguments: [String], status: Int32, text: String
    ) async throws {
        let outcome = try await Machine(tcti: nil).run(arguments, program: Products.passkeys)
        #expect(outcome.status == status)
        #expect(!outcome.errors.contains("critical"), "outside the journal, it is no log entry")
        #expect(outcome.errors.contains(text), "\(outcome.errors)")
    }

    @Test func `a configuration file that others can write ends the service without a restart`()
        async throws
    {
        let machine = try Machine(tcti: nil)
        let directory = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        let file = "\(directory)/config.json"
        try Data("{}".utf8).write(to: URL(filePath: file))
        try #require(chmod(directory, 0o755) == 0 && chmod(file, 0o646) == 0)
        let outcome = try await machine.run([], program: Products.passkeys)
        #expect(outcome.status == 2)
        #expect(outcome.errors.contains("other users can write \(file)"), "\(outcome.errors)")
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), arguments: [SIGTERM, SIGINT])
    func `serve answers packets of the relay, and a signal ends it with 0`(signal: Int32)
        async throws
    {
        try await PasskeyRelay.withService(
            [Products.latchkey.string, "passkey", "serve", "--verbose"]
        ) { service, relay in
            let channel = try await PasskeyRelay.openChannel(relay)
            // CTAPHID_CBOR with authenticatorGetInfo.
            PasskeyRelay.send([0x04], 0x10, on: channel, relay)
            let answer = await PasskeyRelay.packet(from: relay) {
                $0.starts(with: channel + [0x90])
            }
            #expect(!answer.isEmpty)
            #expect(await service.stop(signal) == 0)
            let errors = await service.remainder().errors
            #expect(errors.contains("serving passkeys"), "\(errors)")
            #expect(errors.contains("answered a request"), "\(errors)")
            #expect(errors.contains("request=getInfo status=ok"), "\(errors)")
        }
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `after its store was replaced the service ends, so that systemd starts it again`()
        async throws
    {
        let data = try TemporaryDirectory()
        defer { withExtendedLifetime(data) {} }
        try await PasskeyRelay.withService(extra: ["XDG_DATA_HOME": data.path]) { service, relay in
            let channel = try await PasskeyRelay.openChannel(relay)
            for suffix in ["", "-wal", "-shm"] {
                try FileManager.default.removeItem(
                    atPath: data.path(of: "latchkey/default/latchkey.sqlite\(suffix)"))
            }
            // CTAPHID_CBOR with authenticatorGetAssertion, without a prompt (the option up).
            let site = Array("a.example".utf8)
            let hash = [UInt8](repeating: 1, count: 32)
            let request: [UInt8] =
                [0x02, 0xA3, 0x01, 0x69] + site + [0x02, 0x58, 0x20] + hash
                + [0x05, 0xA1, 0x62, 0x75, 0x70, 0xF4]
            PasskeyRelay.send(request, 0x10, on: channel, relay)
            #expect(await service.wait() == 10)
            let errors = await service.remainder().errors
            #expect(errors.contains("another program replaced or deleted"), "\(errors)")
        }
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), arguments: [SIGTERM, SIGINT, SIGQUIT])
    func `a signal during a request closes its prompt`(signal: Int32) async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let pinentry = directory.path(of: "pinentry")
        try Data(
            """
            #!/bin/sh
            echo OK
            while read -r command text; do
              case $command in
                GETINFO) printf 'D gtk2\\nOK\\n' ;;
                CONFIRM) echo "$$" >"$0.id"; exec sleep 100000 ;;
                *) echo OK ;;
              esac
            done
            """.utf8
        ).write(to: URL(filePath: pinentry))
        try #require(chmod(pinentry, 0o700) == 0)
        let promptID = { @Sendable () -> Int32? in
            let text = try? String(contentsOfFile: "\(pinentry).id", encoding: .utf8)
            return text.flatMap { Int32($0.trimmingCharacters(in: .newlines)) }
        }
        try await PasskeyRelay.withService(extra: ["PINENTRY_PROGRAM": pinentry]) {
            service, relay in
            let channel = try await PasskeyRelay.openChannel(relay)
            // CTAPHID_CBOR with authenticatorSelection, which prompts for this device.
            PasskeyRelay.send([0x0B], 0x10, on: channel, relay)
            // CTAPHID_KEEPALIVE
            let answer = await PasskeyRelay.packet(from: relay) {
                $0.starts(with: channel + [0xBB])
            }
            #expect(!answer.isEmpty)
            #expect(await poll { promptID() != nil })
            let prompt = try #require(promptID())
            #expect(await service.stop(signal) == 0)
            let isOpen = kill(prompt, 0) == 0
            if isOpen { kill(prompt, SIGKILL) }
            #expect(!isOpen)
        }
    }

    /// Whether this process can see the descriptors of a process that protects its memory: it has
    /// CAP_SYS_PTRACE.
    private static let seesDescriptors: Bool = {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let set =
            status.firstMatch(of: /CapEff:\s*([0-9a-f]+)/).flatMap { UInt64($0.1, radix: 16) } ?? 0
        return set & (1 << 19) != 0
    }()

    @Test(
        .softwareTPM, .requires(program: "swtpm"),
        .enabled(if: seesDescriptors, "takes the capability CAP_SYS_PTRACE"))
    func `a closed standard error becomes no other file`() async throws {
        let command = ["/bin/sh", "-c", #"exec "$0" "$@" 2>&-"#, Products.passkeys.string]
        try await PasskeyRelay.withService(command) { service, relay in
            try await PasskeyRelay.openChannel(relay)
            let file = try FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/\(service.id)/fd/2")
            #expect(file == "/dev/null")
            #expect(await service.stop() == 0)
        }
    }
}
