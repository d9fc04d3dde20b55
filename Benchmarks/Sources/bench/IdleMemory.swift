import Foundation
import LatchkeySimulators

/// Measures the peak memory of idle services.
struct IdleMemory {
    @concurrent func run() async throws -> Findings {
        Findings(rows: [
            Row("memory of the idle agent", try await agent(), "MB", atMost: 40),
            Row("memory of the idle service of passkeys", try await passkeys(), "MB", atMost: 40),
            Row("memory of the idle presence broker", try await presenced(), "MB", atMost: 40),
        ])
    }

    /// After a client has listed the keys.
    private func agent() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let store = ["--tcti", tpm.tcti, "--store", directory.path(of: "store")]
            try Program.built("latchkey").run(["key", "create", "--policy", "none"] + store)
            let socket = directory.path(of: "agent.sock")
            return try await Program.built("latchkey-agent").serving(
                ["--socket", socket] + store, printsLine: false
            ) { process, _ in
                let client =
                    "until [ -S '\(socket)' ]; do sleep 0.1; done; ssh-add -l || [ $? = 1 ]"
                try Program(name: "timeout", environment: ["SSH_AUTH_SOCK": socket])
                    .run(["60", "sh", "-c", client])
                return try Self.peak(of: process)
            }
        }
    }

    /// After the device has answered a client.
    private func passkeys() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let service = [
                Program.built("latchkey-passkeys").name, "--policy", "pin", "--tcti", tpm.tcti,
                "--store", directory.path(of: "store"), "--pin-source", "pinentry", "--relay",
                directory.path(of: "relay.sock"),
            ]
            let printed = try Program(name: "python3").run(["-c", Self.relay] + service)
            guard let kilobytes = Double(String(decoding: printed, as: UTF8.self).dropLast()) else {
                throw Failure(reason: "the relay printed no number")
            }
            return kilobytes * 1024 / 1e6
        }
    }

    /// Starts the service, whose last argument is the socket of its relay, sends it `CTAPHID_INIT`,
    /// and prints its peak memory in kilobytes.
    private static let relay = """
        import signal, socket, subprocess, sys
        relay = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        relay.bind(sys.argv[-1])
        relay.listen()
        relay.settimeout(60)
        # A thread of Swift's pool starts this program, and its mask may block SIGTERM.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            service, _ = relay.accept()
            service.settimeout(60)
            service.send(bytes.fromhex("ffffffff860008").ljust(64, bytes(1)))
            assert service.recv(4096), "the service gave no answer"
            for line in open(f"/proc/{process.pid}/status"):
                if line.startswith("VmHWM:"):
                    print(line.split()[1])
        finally:
            process.terminate()
            process.wait(60)
        """

    private func presenced() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            try await VirtualFingerprintReader.withRunning { reader in
                let state = try TemporaryDirectory()
                let environment = [
                    "DBUS_SYSTEM_BUS_ADDRESS": reader.busAddress, "LATCHKEY_TCTI": tpm.tcti,
                    "STATE_DIRECTORY": state.path, "TSS2_LOG": "all+NONE",
                ]
                let program = Program.built("latchkey-presenced", environment: environment)
                return try await program.serving(
                    ["--prints", reader.printsDirectory], printsLine: false
                ) { identifier, _ in
                    try Program(name: "gdbus").run([
                        "wait", "--address", reader.busAddress, "--timeout", "30",
                        "org.latchkey.Presence1",
                    ])
                    return try Self.peak(of: identifier)
                }
            }
        }
    }

    /// The peak of a process in megabytes (10⁶ bytes).
    static func peak(of identifier: Int32) throws -> Double {
        let status = try String(contentsOfFile: "/proc/\(identifier)/status", encoding: .utf8)
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") }),
            let kilobytes = line.split(separator: " ").dropFirst().first.flatMap({ Double($0) })
        else { throw Failure(reason: "/proc does not report the memory of the process") }
        return kilobytes * 1024 / 1e6
    }
}
