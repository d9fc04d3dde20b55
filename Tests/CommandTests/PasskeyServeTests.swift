import Foundation
import Glibc
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing
import UNIXSockets

/// `latchkey passkey serve`, which runs the `latchkey-passkeys` in its folder, and `latchkey-passkeys` as a process.
@Suite(.timeLimit(.minutes(15)))
struct PasskeyServeTests {
    /// Runs `body` with a hard link to `latchkey` in a new folder, which is among the built programs because a hard link cannot
    /// cross file systems.
    ///
    /// - Parameter script: The script `latchkey-passkeys` in the same folder; nil for none.
    private func withLatchkey(script: String?, _ body: (FilePath) async throws -> Void) async throws {
        let folder = Products.directory.appending("siblings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder.string) }
        let latchkey = folder.appending("latchkey")
        try FileManager.default.linkItem(atPath: Products.latchkey.string, toPath: latchkey.string)
        if let script {
            let path = folder.appending("latchkey-passkeys").string
            try Data(script.utf8).write(to: URL(filePath: path))
            try #require(chmod(path, 0o755) == 0)
        }
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
                "passkey", "serve", "--store", "/a b", "--tcti", "swtpm:path=/x", "--container", "passkey",
                "--verbose", "--policy", "pin", "--relay", "/r", "--presence", "finger", "--token-login", "pin",
                "--allow-short-pin", "--endpoint", "https://a.example", program: latchkey)
            #expect(outcome.status == 5)
            #expect(
                outcome.output.split(separator: "\n").map(String.init) == [
                    "--container=passkey", "--store=/a b", "--tcti=swtpm:path=/x", "--token-login=pin",
                    "--presence=finger", "--policy=pin", "--relay=/r", "--allow-short-pin", "--verbose",
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

    @Test func `serve refuses wrong options before the program starts`() async throws {
        try await withLatchkey(script: "#!/bin/sh\nexit 5\n") { latchkey in
            let outcome = try await Machine(tcti: nil).run("passkey", "serve", "--policy", "none", program: latchkey)
            #expect(outcome.status == 2)
        }
    }

    @Test(
        arguments: [
            (["--relay", "/nonexistent/relay"], 7, "Install the package latchkey-passkeys."),
            (["--tcti", "device:/etc/hostname"], 2, "Set a TPM with --tcti"), (["--policy", "none"], 64, "--policy"),
            (["--presence", "maybe"], 64, "any, pin or finger"),
        ] as [([String], Int32, String)])
    func `the service's exit status tells systemd whether to restart it`(
        arguments: [String], status: Int32, text: String
    ) async throws {
        let outcome = try await Machine(tcti: nil).run(arguments, program: Products.passkeys)
        #expect(outcome.status == status)
        #expect(outcome.errors.contains(text), "\(outcome.errors)")
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), arguments: [SIGTERM, SIGINT])
    func `serve answers packets of the relay, and a signal ends it with 0`(signal: Int32) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let path = machine.directory.path(of: "relay")
        let listener = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(listener) }
        let address = try #require(UNIXSocketAddress(path: path))
        try #require(address.withPointer { bind(listener, $0, $1) } == 0)
        try #require(listen(listener, 1) == 0)
        var variables = machine.environment
        variables["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=\(machine.directory.path(of: "no-bus"))"
        let service = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            variables.map { "\($0.key)=\($0.value)" } + [
                Products.latchkey.string, "passkey", "serve", "--relay", path, "--pin-source", "pinentry",
            ])
        try await withTeardown({ await service.stop(SIGKILL) }) {
            // CTAPHID_INIT on the broadcast channel, with a nonce of 8 bytes.
            let request: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0x86, 0, 8] + [UInt8](repeating: 7, count: 57)
            let answer = await Self.exchange(request, listener)
            #expect(answer.count == 64)
            let start: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0x86, 0, 17] + [UInt8](repeating: 7, count: 8)
            #expect(answer.starts(with: start), "\(answer)")
            #expect(await service.stop(signal) == 0)
            let errors = await service.remainder().errors
            #expect(errors.contains("serving passkeys"), "\(errors)")
        }
    }

    /// Accepts a connection, sends a packet, and reads the answer, on another thread. The answer is empty if the service ends or does
    /// not answer within `hangLimit`.
    private static func exchange(_ packet: [UInt8], _ listener: Int32) async -> [UInt8] {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var waiting = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
                let limit = Int32(hangLimit.components.seconds) * 1000
                guard Glibc.poll(&waiting, 1, limit) == 1 else { return continuation.resume(returning: []) }
                // Closing the connection ends the service, so the test keeps it.
                let relay = accept(listener, nil, nil)
                _ = send(relay, packet, packet.count, Int32(MSG_NOSIGNAL))
                waiting = pollfd(fd: relay, events: Int16(POLLIN), revents: 0)
                var answer = [UInt8](repeating: 0, count: 100)
                let count = Glibc.poll(&waiting, 1, limit) == 1 ? recv(relay, &answer, answer.count, 0) : 0
                continuation.resume(returning: Array(answer.prefix(max(count, 0))))
            }
        }
    }
}
