import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyDesktop

/// The client with the real daemon, which runs as the tests' user.
@Suite(.requires(program: "gnome-keyring-daemon"))
struct GnomeKeyringTests {
    private static let secret = SecretBytes(String(repeating: "5a", count: 32).utf8)

    private var deadline: ContinuousClock.Instant { .now + hangLimit }

    @Test func `the right secret opens the keyring, a wrong one does not`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        try await whileRunning(user.startDaemon()) { () async throws in
            let keyring = user.keyring
            #expect(keyring.file == .encrypted)
            #expect(try keyring.unlock(Self.secret, until: deadline) == .denied)
            #expect(try keyring.unlock(KeyringUser.password, until: deadline) == .done)
            // While it is open, the same call is a test.
            #expect(try keyring.unlock(Self.secret, until: deadline) == .denied)
        }
    }

    @Test func `a change replaces the secret at once, and needs the old one`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        try await whileRunning(user.startDaemon()) { () async throws in
            let (keyring, password) = (user.keyring, KeyringUser.password)
            #expect(
                try keyring.change(from: Self.secret, to: password, until: deadline) == .denied)
            #expect(try keyring.unlock(password, until: deadline) == .done)
            #expect(try keyring.change(from: password, to: Self.secret, until: deadline) == .done)
            #expect(try keyring.unlock(password, until: deadline) == .denied)
            #expect(try keyring.unlock(Self.secret, until: deadline) == .done)
        }
        try await whileRunning(user.startDaemon()) { () async throws in
            #expect(try user.keyring.unlock(Self.secret, until: deadline) == .done)
        }
    }

    @Test func `without a keyring nothing is sent, and none is created`() async throws {
        let user = try KeyringUser()
        try await whileRunning(user.startDaemon()) { () async throws in
            let keyring = user.keyring
            #expect(keyring.file == .absent)
            #expect(throws: CommonError.of(.notFound)) {
                try keyring.unlock(Self.secret, until: deadline)
            }
            #expect(throws: CommonError.of(.notFound)) {
                try keyring.change(from: KeyringUser.password, to: Self.secret, until: deadline)
            }
            #expect(keyring.file == .absent)
        }
    }

    @Test func `an empty secret is never sent`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        try await whileRunning(user.startDaemon()) { () async throws in
            for wrong in [[], [0], Array("a\0b".utf8), Array(repeating: 97, count: 4097)] {
                let wrong = SecretBytes(wrong as [UInt8])
                #expect(throws: CommonError.of(.invalidInput)) {
                    try user.keyring.unlock(wrong, until: deadline)
                }
                #expect(throws: CommonError.of(.invalidInput)) {
                    try user.keyring.change(
                        from: KeyringUser.password, to: wrong, until: deadline)
                }
            }
            #expect(user.keyring.file == .encrypted)
            #expect(try user.keyring.unlock(KeyringUser.password, until: deadline) == .done)
        }
    }

    @Test func `an unencrypted keyring is recognized and refused`() async throws {
        let user = try KeyringUser()
        // The daemon writes one for an empty password.
        let daemon = try await user.startDaemon(unlocking: "")
        try await whileRunning(daemon) { () async throws in
            let directory = URL(filePath: user.keyringFile).deletingLastPathComponent()
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            try Data("[keyring]\ndisplay-name=Login\n".utf8).write(
                to: URL(filePath: user.keyringFile))
            #expect(user.keyring.file == .clearText)
            #expect(throws: CommonError.of(.refused)) {
                try user.keyring.unlock(KeyringUser.password, until: deadline)
            }
        }
    }

    @Test func `a daemon that starts later is found`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        let (keyring, limit) = (user.keyring, deadline)
        let answer = Task.detached {
            await Self.onThread { try? keyring.unlock(KeyringUser.password, until: limit) }
        }
        try await whileRunning(user.startDaemon()) { () async throws in
            #expect(await answer.value == .done)
        }
    }

    @Test func `without a daemon the wait ends at the deadline`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        #expect(throws: CommonError.of(.unavailable)) {
            try user.keyring.unlock(KeyringUser.password, until: .now + .milliseconds(50))
        }
    }

    @Test func `a daemon that hangs, ends or talks nonsense is an error`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        try #require(mkdir("\(user.place.runtimeDirectory)/keyring", 0o700) == 0 || errno == EEXIST)
        let answers: [([UInt8]?, CommonErrorCode)] = [
            (nil, .unavailable), ([], .unavailable), ([0, 0, 0, 8], .unavailable),
            ([0, 0, 0, 8, 0, 0, 0, 2], .failed), ([0, 0, 0, 9, 0, 0, 0, 0], .failed),
            ([255, 255, 255, 255, 0, 0, 0, 0], .failed),
        ]
        for (answer, code) in answers {
            let daemon = try ScriptedListener(user.control) { answer }
            #expect(throws: CommonError.of(code), "\(answer ?? [])") {
                try user.keyring.unlock(
                    KeyringUser.password,
                    until: .now + (answer == nil ? .milliseconds(100) : hangLimit))
            }
            daemon.end()
        }
    }

    /// Runs work that blocks on its own thread.
    private static func onThread<R: Sendable>(_ work: @escaping @Sendable () -> R) async -> R {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: work()) }
        }
    }
}

extension GnomeKeyringTests {
    @Test(.requires(program: "secret-tool"), .requires(program: "dbus-run-session"))
    func `programs read their secrets after the keyring has the new secret`() async throws {
        let user = try KeyringUser()
        try await user.createKeyring()
        // Stores a secret in a session with a bus.
        func session(_ password: String, _ command: String) async throws -> String {
            let script = """
                printf %s '\(password)' | gnome-keyring-daemon --foreground --unlock --components=secrets & daemon=$!
                until [ -S "$XDG_RUNTIME_DIR/keyring/control" ] && \
                    busctl --user --no-pager list --acquired | grep -q org.freedesktop.secrets; do sleep 0.05; done
                \(command)
                kill $daemon; wait $daemon 2>/dev/null; rm -f "$XDG_RUNTIME_DIR/keyring/control"
                """
            let run = try user.start(
                "timeout", ["-k", "1", "120", "dbus-run-session", "--", "bash", "-c", script])
            let output = await run.remainder().output
            await run.wait()
            return output
        }
        _ = try await session(
            "login-password",
            "printf hunter2 | secret-tool store --collection=login --label=t app test")
        try await whileRunning(user.startDaemon()) { () async throws in
            #expect(
                try user.keyring.change(
                    from: KeyringUser.password, to: Self.secret, until: deadline) == .done)
        }
        unlink(user.control)
        let lookup = "secret-tool lookup app test"
        #expect(try await session(Self.secret.text, lookup).contains("hunter2"))
        // A closed keyring prompts.
        #expect(try await !session("login-password", "timeout 5 \(lookup)").contains("hunter2"))
    }
}
