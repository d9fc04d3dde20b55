import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The script of the article ManyMachines that sets the TPM's lockout password of a machine.
@Suite(
    .requires(program: "tpm2_changeauth"), .requires(program: "tpm2_getcap"),
    .requires(program: "tpm2_dictionarylockout"), .requires(program: "openssl"),
    .requires(program: "shred"), .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct LockoutPasswordTests {
    /// A machine with an empty lockout password, and an escrow.
    private struct Scene {
        let tpm: SoftwareTPM
        let directory: TemporaryDirectory
        var password: String { directory.path(of: "run/lockout-password") }
        var sealed: String { directory.path(of: "run/lockout-password.cms") }
        /// The stored digest of the password that the TPM has.
        var record: String { directory.path(of: "state/lockout-password.digest") }

        init() async throws {
            tpm = try await SoftwareTPM(hasLockoutPassword: false)
            directory = try TemporaryDirectory()
            let article = try String(
                contentsOf: BuiltProduct.packageFolder.appending(
                    path: "Documentation/Guide.docc/ManyMachines.md"), encoding: .utf8)
            let block = try #require(article.firstMatch(of: /(?s)```sh\n(#!\/bin\/sh\n.*?)```/))
            var script = String(block.1)
            for (place, name) in [("/run/", "run"), ("/var/lib/", "state")] {
                let folder = directory.path(of: name)
                try FileManager.default.createDirectory(
                    atPath: folder, withIntermediateDirectories: false)
                script.replace(place, with: folder + "/")
            }
            try Data(script.utf8).write(to: URL(filePath: directory.path(of: "script")))
            try await SystemProgram("openssl").require([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=escrow", "-keyout",
                directory.path(of: "escrow.key"), "-out", directory.path(of: "escrow.pem"),
            ])
        }

        func script(_ arguments: String...) async throws -> SystemProgram.Outcome {
            try await SystemProgram("env").result(
                of: [
                    "TPM2TOOLS_TCTI=\(tpm.tcti)", "TSS2_LOG=all+NONE", "sh",
                    directory.path(of: "script"),
                ] + arguments)
        }

        func prepare() async throws -> SystemProgram.Outcome {
            try await script("prepare", directory.path(of: "escrow.pem"))
        }

        /// The password in the escrow's copy of the encrypted file.
        func escrowed() async throws -> String {
            try await SystemProgram("openssl").require([
                "cms", "-decrypt", "-inform", "PEM", "-in", sealed, "-recip",
                directory.path(of: "escrow.pem"), "-inkey", directory.path(of: "escrow.key"),
            ])
        }

        func tool(_ words: String...) async throws -> SystemProgram.Outcome {
            try await SystemProgram("env").result(
                of: ["TPM2TOOLS_TCTI=\(tpm.tcti)", "TSS2_LOG=all+NONE"] + words)
        }

        func endsLockout(_ password: String) async throws -> Bool {
            try await tool("tpm2_dictionarylockout", "--clear-lockout", "--auth", password)
                .isSuccess
        }

        func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }
    }

    private static func digest(_ outcome: SystemProgram.Outcome) throws -> String {
        String(try #require(outcome.text.firstMatch(of: /[0-9a-f]{64}/)).output)
    }

    @Test func `each step can be repeated, and the escrow has the password that is set`()
        async throws
    {
        let scene = try await Scene()
        let first = try await scene.prepare()
        let digest = try Self.digest(first)
        #expect(first.isSuccess, "\(first.text)")
        #expect(try Self.digest(await scene.prepare()) == digest, "no second password")
        let password = try await scene.escrowed()
        #expect(password.utf8.count == 32)
        // Nothing is set before the escrow states the right digest.
        let other = String(repeating: "0", count: 64)
        let wrong = try await scene.script("set", other)
        #expect(!wrong.isSuccess && wrong.text.contains("escrow"), "\(wrong.text)")
        #expect(try await scene.endsLockout(""))
        let typed = try await scene.script("set", "-")
        #expect(!typed.isSuccess && typed.text.contains("64"), "\(typed.text)")
        // As sha256sum prints it, and in capital letters.
        for text in [digest, "\(digest)  -", digest.uppercased()] {
            let set = try await scene.script("set", text)
            #expect(set.isSuccess, "\(set.text)")
        }
        let later = try await scene.script("set", other)
        #expect(!later.isSuccess && later.text.contains("another password"), "\(later.text)")
        #expect(!scene.exists(scene.password) && !scene.exists(scene.password + ".sent"))
        #expect(!scene.exists(scene.sealed))
        // The whole again makes no new password for the escrow, and no wrong attempt.
        let again = try await scene.prepare()
        #expect(again.isSuccess && !scene.exists(scene.sealed), "\(again.text)")
        #expect(again.text.contains(digest), "\(again.text)")
        #expect(try await scene.endsLockout(password))
        await scene.tpm.cutPower()
    }

    @Test func `an interrupted step continues, and another password is not replaced`() async throws
    {
        let scene = try await Scene()
        let digest = try Self.digest(await scene.prepare())
        let password = try await scene.escrowed()
        // The power fails before the password is set.
        try FileManager.default.moveItem(
            atPath: scene.password, toPath: scene.password + ".sent")
        #expect(try await !scene.prepare().isSuccess)
        let wrong = try await scene.script("set", String(repeating: "0", count: 64))
        #expect(!wrong.isSuccess && scene.exists(scene.password + ".sent"), "\(wrong.text)")
        // It fails after the password is set, and before its digest is stored.
        #expect(
            try await scene.tool(
                "tpm2_changeauth", "-c", "lockout", "file:\(scene.password).sent"
            ).isSuccess)
        #expect(try await scene.script("set", digest).isSuccess)
        #expect(try await scene.endsLockout(password))
        #expect(try await scene.prepare().isSuccess)
        await scene.tpm.cutPower()

        let other = try await Scene()
        let unused = try Self.digest(await other.prepare())
        #expect(try await other.tool("tpm2_changeauth", "-c", "lockout", "another").isSuccess)
        let refused = try await other.script("set", unused)
        #expect(!refused.isSuccess && refused.text.contains("another password"), "\(refused.text)")
        #expect(try await other.endsLockout("another"))
        await other.tpm.cutPower()
    }

    @Test func `a password that the escrow does not have is an error, and its owner can remove it`()
        async throws
    {
        let scene = try await Scene()
        let path = scene.directory.path(of: "password")
        try Data("of a member".utf8).write(to: URL(filePath: path))
        let set = try await scene.tool("tpm2_changeauth", "-c", "lockout", "file:\(path)")
        #expect(set.isSuccess, "\(set.text)")
        let digest = String(repeating: "0", count: 64)
        for outcome in [try await scene.prepare(), try await scene.script("set", digest)] {
            #expect(!outcome.isSuccess, "\(outcome.text)")
        }
        #expect(!scene.exists(scene.password) && !scene.exists(scene.record))
        // No wrong attempt has blocked the password.
        #expect(try await scene.endsLockout("file:\(path)"))
        let removed = try await scene.tool(
            "tpm2_changeauth", "-c", "lockout", "-p", "file:\(path)")
        #expect(removed.isSuccess, "\(removed.text)")
        let own = try Self.digest(await scene.prepare())
        #expect(try await scene.script("set", own).isSuccess)
        // After an interruption the TPM confirms the password.
        try Data("another".utf8).write(to: URL(filePath: scene.password + ".sent"))
        let sum = try await SystemProgram("sha256sum").require([scene.password + ".sent"])
        let unconfirmed = try await scene.script("set", String(sum.prefix(64)))
        #expect(!unconfirmed.isSuccess, "\(unconfirmed.text)")
        #expect(try String(contentsOfFile: scene.record, encoding: .utf8) == own + "\n")
        await scene.tpm.cutPower()
    }
}
