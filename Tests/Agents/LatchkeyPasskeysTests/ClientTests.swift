import Foundation  // ProcessInfo
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyPasskeys

/// Independent clients use the complete authenticator, with packets over a UNIX socket instead of a
/// kernel device.
@Suite(.softwareTPM) struct ClientTests {
    private static let clients = URL(filePath: #filePath).deletingLastPathComponent().appending(
        path: "Clients")

    static var python: String {
        let environment = ProcessInfo.processInfo.environment
        let cache = environment["XDG_CACHE_HOME"] ?? "\(environment["HOME"] ?? "")/.cache"
        return "\(cache)/latchkey/webauthn/bin/python"
    }

    /// A tenth of the system's speed. A busy machine needs longer than the half second between the
    /// packets of a message.
    private static let slowClock: PasskeyClock = {
        let start = ContinuousClock.now
        return PasskeyClock(
            now: { (ContinuousClock.now - start) / 10 },
            sleep: { try await Task.sleep(until: start + $0 * 10, clock: .continuous) })
    }()

    private func with(
        _ body: (PacketNode, ScriptedPrompt, PasskeyStore, String) async throws -> Void
    ) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let node = try PacketNode(path: directory.path + "/hidraw")
            // The first selection waits for CANCEL, and a later one for a second program that finds
            // the device busy.
            let selections = Counter()
            let prompt = ScriptedPrompt(answer: { question in
                guard question.purpose == .selectDevice else {
                    return question.site == "no.example"
                        ? .no : .use(question.accounts.firstIndex(of: "eve") ?? 0)
                }
                if selections.next() == 1 { return await ScriptedPrompt.hesitate() }
                while !Task.isCancelled,
                    !node.packets.contains(where: { $0[4] == 0xBF && $0[7] == 0x06 })
                {
                    try? await Task.sleep(for: .milliseconds(20))
                }
                return .use(0)
            })
            let keystore = TPMKeystore(
                tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
            let records = try RecordContainer(
                name: "passkeys", store: try await RecordStore(directory: directory.path),
                keystore: keystore)
            let store = PasskeyStore(records: records)
            try await store.open()
            let device = node.serve(
                Authenticator(
                    PasskeyEngine(
                        keystore: keystore, store: store, prompt: prompt, policy: { .pin }),
                    aaguid: .software),
                clock: Self.slowClock)
            try await body(node, prompt, store, directory.path)
            node.close()
            await device.close()
        }
    }

    @Test(
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: ClientTests.python),
            "needs py_webauthn and python-fido2, which scripts/setup installs"))
    func `python-fido2 registers and logs in, and py_webauthn verifies it`() async throws {
        try await with { node, prompt, store, _ in
            let outcome = try await SystemProgram(Self.python).result(
                of: [Self.clients.appending(path: "python_client.py").path, node.path])
            #expect(outcome.isSuccess, "\(outcome.text)")
            let lines = outcome.output.split(separator: "\n").map(String.init)
            #expect(
                lines == [
                    "info ok", "create ok", "create second account ok", "excluded ok", "list ok",
                    "two accounts ok",
                    "prf ok", "credProtect ok", "py_webauthn ok", "refused ok", "cancel ok",
                    "busy ok",
                ], "\(outcome.text)")
            #expect(!prompt.questions.isEmpty)
            #expect(try store.list().count == 4)
        }
    }

    @Test(.requires(program: "cc"), .requires(program: "pkg-config"))
    func `libfido2 registers and logs in, and verifies it`() async throws {
        let flags = try await SystemProgram("pkg-config").result(of: [
            "--cflags", "--libs", "libfido2",
        ])
        try #require(flags.isSuccess, "scripts/setup installs libfido2-dev: \(flags.text)")
        try await with { node, _, store, directory in
            let program = directory + "/client"
            let compiled = try await SystemProgram("cc").result(
                of: [
                    "-Wall", "-o", program, Self.clients.appending(path: "libfido2_client.c").path,
                ]
                    + flags.output.split(whereSeparator: \.isWhitespace).map(String.init))
            try #require(compiled.isSuccess, "\(compiled.text)")
            let outcome = try await SystemProgram(program).result(of: [node.path])
            #expect(outcome.isSuccess, "\(outcome.text)")
            #expect(
                outcome.output.split(separator: "\n").map(String.init) == [
                    "info ok", "create ok", "create rk uv hmac-secret credProtect ok", "login ok",
                    "login uv ok",
                    "login hmac-secret ok", "same outputs ok", "login without a list ok",
                    "probe ok",
                    "excluded ok", "unknown probe ok", "reset refused ok", "retries ok",
                ], "\(outcome.text)")
            #expect(try store.list().count == 2)
        }
    }
}

/// A number that rises.
private final class Counter: Sendable {
    private let value = Mutex(0)

    func next() -> Int {
        value.withLock {
            $0 += 1
            return $0
        }
    }
}
