import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(
    .virtualFinger, .requires(program: "dbus-daemon"), .requires(program: "fprintd-verify"),
    .requires(program: "gdbus"), .timeLimit(.minutes(15)))
struct `A virtual fingerprint reader` {
    @Test func `distinguishes an enrolled finger from another`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "alice's", for: "alice")
        #expect(
            try await verification(of: "alice", by: .finger("alice's"), at: reader).contains(
                "verify-match (done)"))
        #expect(
            try await verification(of: "alice", by: .finger("mallory's"), at: reader).contains(
                "verify-no-match (done)")
        )
    }

    @Test func `separates the fingers of users`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "alice's", for: "alice")
        try await reader.enroll(.leftThumb, as: "bob's", for: "bob")
        #expect(
            try await verification(of: "bob", by: .finger("alice's"), at: reader).contains(
                "verify-no-match (done)"))
    }

    @Test func `continues after an unreadable swipe`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(as: "alice's", for: "alice")
        let text = try await verification(
            of: "alice", by: .tooShort, .offCentre, .finger("alice's"), at: reader)
        #expect(text.contains("verify-swipe-too-short (not done)"))
        #expect(text.contains("verify-finger-not-centered (not done)"))
        #expect(text.contains("verify-match (done)"))
    }

    @Test func `reports a sensor failure`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(as: "alice's", for: "alice")
        #expect(
            try await verification(of: "alice", by: .failure, at: reader).contains(
                "verify-unknown-error (done)"))
    }

    @Test func `forgets deleted fingers`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "first", for: "alice")
        try await reader.enroll(.rightThumb, as: "second", for: "alice")
        try await reader.delete(.rightIndex, of: "alice")
        let one = try await client("fprintd-list", "alice", of: reader)
        #expect(one.contains("right-thumb") && !one.contains("right-index-finger"))
        try await reader.delete(of: "alice")
        #expect(
            try await client("fprintd-list", "alice", of: reader).contains(
                "has no fingers enrolled"))
    }

    @Test func `keeps its fingers while fprintd is stopped`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(as: "alice's", for: "alice")
        await reader.stop()
        #expect(try await client("fprintd-list", "alice", of: reader).contains("ServiceUnknown"))
        try await reader.start()
        #expect(
            try await verification(of: "alice", by: .finger("alice's"), at: reader).contains(
                "verify-match (done)"))
    }

    @Test func `fails when polkit refuses`() async throws {
        let reader = try VirtualFingerprintReader.current
        try await reader.authorize(false)
        let refused = await #expect(throws: KeystoreError.self) {
            try await reader.enroll(as: "x", for: "alice")
        }
        #expect(refused?.underlying?.text.contains("PermissionDenied") == true)
        try await reader.authorize(true)
        try await reader.enroll(as: "x", for: "alice")
    }

    @Test func `reports that no program waits for a finger`() async throws {
        let reader = try VirtualFingerprintReader.current
        let error = await #expect(throws: KeystoreError.self) {
            try await reader.present(.finger("x"), within: .milliseconds(50))
        }
        #expect(error?.code == .unavailable)
    }

    @Test func `leaves no process or directory`() async throws {
        let (address, served) = try await VirtualFingerprintReader.withRunning { reader in
            let path = String(reader.busAddress.dropFirst("unix:path=".count))
            #expect(FileManager.default.fileExists(atPath: path))
            return (path, await reader.processIdentifiers)
        }
        #expect(!FileManager.default.fileExists(atPath: address))
        #expect(served.count == 3)
        for pid in served { #expect(!FileManager.default.fileExists(atPath: "/proc/\(pid)/exe")) }
    }

    /// The output of `fprintd-verify` for `touches`.
    private func verification(
        of user: String, by touches: VirtualFingerprintReader.Touch...,
        at reader: VirtualFingerprintReader
    ) async throws -> String {
        async let text = client("fprintd-verify", user, of: reader)
        for touch in touches { try await reader.present(touch) }
        return try await text
    }

    private func client(_ program: String, _ user: String, of reader: VirtualFingerprintReader)
        async throws -> String
    {
        try await SystemProgram("timeout", environment: reader.environment).result(of: [
            "300", program, user,
        ]).text
    }
}
