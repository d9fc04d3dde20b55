import Foundation
import LatchkeySimulators

/// Measures the peak memory of idle services.
struct IdleMemory {
    @concurrent func run() async throws -> Findings {
        Findings(goals: [
            .limit(
                "peak memory of idle latchkey-presenced", try await presenced(), "MB", atMost: 15),
            .limit("peak memory of idle latchkey-identity", try await identity(), "MB", atMost: 35),
            .limit("peak memory of idle latchkey-agent", try await agent(), "MB", atMost: 25),
            .limit("peak memory of idle latchkey-passkeys", try await passkeys(), "MB", atMost: 25),
            .limit("peak memory of idle latchkey-uhid", try relay(), "MB", atMost: 25),
        ])
    }

    /// After a client has listed the keys.
    private func agent() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let store = ["--tcti", tpm.tcti, "--store", directory.path(of: "store")]
            try Program.built("latchkey").run(["key", "create", "--policy", "none"] + store)
            let socket = directory.path(of: "agent.sock")
            return try Self.answered(
                "connect", socket,
                [Program.built("latchkey-agent").name, "--socket", socket] + store)
        }
    }

    /// After the device has answered a client.
    private func passkeys() async throws -> Double {
        try await SoftwareTPM.withRunning { tpm in
            let directory = try TemporaryDirectory()
            let socket = directory.path(of: "relay.sock")
            return try Self.answered(
                "accept", socket,
                [
                    Program.built("latchkey-passkeys").name, "--policy", "pin", "--relay", socket,
                    "--tcti", tpm.tcti,
                    "--store", directory.path(of: "store"), "--pin-source", "pinentry",
                ])
        }
    }

    /// After the relay has refused a client for which it has no device.
    private func relay() throws -> Double {
        let socket = try TemporaryDirectory().path(of: "relay.sock")
        return try Self.answered(
            "refuse", socket,
            [
                "systemd-socket-activate", "--seqpacket", "--listen", socket,
                Program.built("latchkey-uhid").name,
            ])
    }

    /// Starts a service, exchanges one message with it, and ends it.
    ///
    /// - Returns: The peak of the service.
    private static func answered(_ manner: String, _ socket: String, _ service: [String]) throws
        -> Double
    {
        let printed = try Program(name: "python3").run(["-c", client, manner, socket] + service)
        guard
            let kilobytes = Double(
                String(decoding: printed, as: UTF8.self).trimmingCharacters(in: .newlines))
        else {
            throw Failure(reason: "the client of \(service) printed no number")
        }
        return kilobytes * 1024 / 1e6
    }

    /// The arguments: who connects, the socket, the service's program and its arguments.
    /// `CTAPHID_INIT` and `SSH_AGENTC_REQUEST_IDENTITIES` are the messages.
    private static let client = """
        import signal, socket, subprocess, sys, time
        manner, path, service = sys.argv[1], sys.argv[2], sys.argv[3:]
        kind = socket.SOCK_STREAM if manner == "connect" else socket.SOCK_SEQPACKET
        end = socket.socket(socket.AF_UNIX, kind)
        if manner == "accept":
            end.bind(path)
            end.listen()
        end.settimeout(60)
        # Unblock all signals: a thread of Swift's pool starts this program, and its mask may block SIGTERM, also for the service.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        process = subprocess.Popen(service, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if manner == "accept":
                end, _ = end.accept()
                end.settimeout(60)
                end.send(bytes.fromhex("ffffffff860008").ljust(64, bytes(1)))
            else:
                deadline = time.monotonic() + 60
                while end.connect_ex(path) != 0:
                    assert time.monotonic() < deadline, "the service does not listen"
                    time.sleep(0.01)
            if manner == "connect":
                end.sendall(bytes.fromhex("000000010b"))
            answer = end.recv(4096)
            assert (len(answer) > 0) == (manner != "refuse"), "the service gave another answer"
            for line in open(f"/proc/{process.pid}/status"):
                if line.startswith("VmHWM:"):
                    print(line.split()[1])
        finally:
            # Not SIGKILL, so that valgrind writes the profile for scripts/startup-order.
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

    private func identity() async throws -> Double {
        try await Program.built("latchkey-identity").serving(["serve", "--demo"], printsLine: true)
        { identifier, _ in
            try Self.peak(of: identifier)
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
