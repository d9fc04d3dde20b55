import CDispatch  // with the next one and Glibc, for stat: the order of files decides who has it
import CoreFoundation
import Foundation
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// `key sign --output` with each kind of file.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "openssl"),
    .timeLimit(.minutes(15)))
struct OutputFileTests {
    /// A machine with a key that needs no PIN, its ID, and its public key as PEM.
    private func withKey(_ body: (Machine, _ id: String, _ folder: String) async throws -> Void)
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--policy", "none", "--json")
        let id = try #require(created.json()["id"]?.string, "\(created)")
        let pem = try await machine.require("key", "export", id, "--format", "pem")
        try Data(pem.output.utf8).write(to: URL(filePath: machine.directory.path(of: "key.pem")))
        try Data("message".utf8).write(to: URL(filePath: machine.directory.path(of: "message")))
        let folder = machine.directory.path(of: "out")
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        try await body(machine, id, folder)
    }

    private func sign(_ machine: Machine, _ id: String, to path: String, status: Int32 = 0)
        async throws -> Outcome
    {
        let outcome = try await machine.run(
            "key", "sign", id, machine.directory.path(of: "message"), "--format", "der", "--output",
            path)
        #expect(outcome.status == status && outcome.output.isEmpty, "\(outcome)")
        return outcome
    }

    private func expectSignature(_ machine: Machine, in path: String) async throws {
        let verified = try await SystemProgram("openssl").result(of: [
            "dgst", "-sha256", "-verify", machine.directory.path(of: "key.pem"), "-signature", path,
            machine.directory.path(of: "message"),
        ])
        #expect(verified.output == "Verified OK\n", "\(verified)")
    }

    private func fileStatus(_ path: String) throws -> stat {
        var status = stat()
        try #require(lstat(path, &status) == 0, "\(path)")
        return status
    }

    private func files(_ folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    @Test func `a new file has the whole signature, and no other file is left`() async throws {
        try await withKey { machine, id, folder in
            _ = try await sign(machine, id, to: "\(folder)/new")
            try await expectSignature(machine, in: "\(folder)/new")
            #expect(try files(folder) == ["new"])
            let mode = try fileStatus("\(folder)/new").st_mode
            #expect(mode & 0o600 == 0o600 && mode & 0o111 == 0)
        }
    }

    @Test(arguments: [0o600, 0o640, 0o666])
    func `an existing file keeps its mode, its owner and its other names`(mode: mode_t) async throws
    {
        try await withKey { machine, id, folder in
            let path = "\(folder)/old"
            try Data(repeating: 0x41, count: 5000).write(to: URL(filePath: path))
            #expect(chmod(path, mode) == 0)
            #expect(link(path, "\(folder)/second") == 0)
            if geteuid() == 0 { #expect(chown(path, 65534, 65534) == 0) }
            let before = try fileStatus(path)
            _ = try await sign(machine, id, to: path)
            let after = try fileStatus(path)
            #expect(after.st_mode == before.st_mode && after.st_uid == before.st_uid)
            #expect(after.st_ino == before.st_ino)
            try await expectSignature(machine, in: path)
            try await expectSignature(machine, in: "\(folder)/second")
        }
    }

    @Test func `a link stays, and its target gets the signature`() async throws {
        try await withKey { machine, id, folder in
            try Data("old".utf8).write(to: URL(filePath: "\(folder)/target"))
            #expect(chmod("\(folder)/target", 0o600) == 0)
            for (name, target) in [
                ("relative", "target"), ("absolute", "\(folder)/target"), ("chain", "relative"),
            ] {
                #expect(symlink(target, "\(folder)/\(name)") == 0)
                _ = try await sign(machine, id, to: "\(folder)/\(name)")
                #expect(try fileStatus("\(folder)/\(name)").st_mode & S_IFMT == S_IFLNK)
                try await expectSignature(machine, in: "\(folder)/target")
                #expect(try fileStatus("\(folder)/target").st_mode & 0o777 == 0o600)
            }
            #expect(symlink("created", "\(folder)/dangling") == 0)
            _ = try await sign(machine, id, to: "\(folder)/dangling")
            #expect(try fileStatus("\(folder)/dangling").st_mode & S_IFMT == S_IFLNK)
            try await expectSignature(machine, in: "\(folder)/created")
            #expect(
                try files(folder) == [
                    "absolute", "chain", "created", "dangling", "relative", "target",
                ])
        }
    }

    @Test func `the reader of a FIFO gets the signature`() async throws {
        try await withKey { machine, id, folder in
            let fifo = "\(folder)/fifo"
            try #require(mkfifo(fifo, 0o600) == 0)
            let reader = try RunningProgram(
                URL(filePath: "/bin/sh"), ["-c", "exec cat '\(fifo)' > '\(folder)/read'"])
            _ = try await sign(machine, id, to: fifo)
            #expect(await reader.wait() == 0)
            #expect(try fileStatus(fifo).st_mode & S_IFMT == S_IFIFO)
            try await expectSignature(machine, in: "\(folder)/read")
        }
    }

    @Test(.enabled(if: geteuid() == 0, "making a device takes root"))
    func `a device stays a device`() async throws {
        try await withKey { machine, id, folder in
            let device = "\(folder)/null"
            // /dev/null
            try #require(mknod(device, S_IFCHR | 0o666, 1 << 8 | 3) == 0)
            try #require(symlink("null", "\(folder)/link") == 0)
            for path in [device, "\(folder)/link"] {
                _ = try await sign(machine, id, to: path)
                let status = try fileStatus(device)
                #expect(status.st_mode & S_IFMT == S_IFCHR && status.st_rdev == 1 << 8 | 3)
            }
            // /dev/full
            try #require(mknod("\(folder)/full", S_IFCHR | 0o666, 1 << 8 | 7) == 0)
            let full = try await sign(machine, id, to: "\(folder)/full", status: 7)
            #expect(full.errors.contains("No space left on device"), "\(full)")
            #expect(full.errors.contains("Free some space, and try again."), "\(full)")
        }
    }

    @Test func `standard output under its name gets the bytes`() async throws {
        try await withKey { machine, id, folder in
            let outcome = try await machine.run(
                [
                    "-c",
                    "\(Products.latchkey) key sign \(id) '\(machine.directory.path(of: "message"))' --format der "
                        + "--output /dev/stdout | cat > '\(folder)/piped'",
                ], program: FilePath("/bin/sh"))
            #expect(outcome.status == 0, "\(outcome)")
            try await expectSignature(machine, in: "\(folder)/piped")
        }
    }

    @Test func `the result does not replace the input`() async throws {
        try await withKey { machine, id, folder in
            let message = machine.directory.path(of: "message")
            let (link, other) = ("\(folder)/link", "\(folder)/other")
            try FileManager.default.createSymbolicLink(
                atPath: link, withDestinationPath: message)
            try FileManager.default.linkItem(atPath: message, toPath: other)
            for path in [message, link, other] {
                let refused = try await sign(machine, id, to: path, status: 2)
                #expect(refused.errors.contains("would replace the input"), "\(refused.errors)")
            }
            let redirected = try await machine.run(
                "-c", "\"$0\" key sign \(id) - --output \"$1\" < \"$1\"",
                Products.latchkey.string, message, program: "/bin/sh")
            #expect(redirected.status == 2, "\(redirected.errors)")
            #expect(try Data(contentsOf: URL(filePath: message)) == Data("message".utf8))
            _ = try await sign(machine, id, to: "\(folder)/signature")
        }
    }

    @Test func `what cannot be written is reported before the prompt, with the cause`() async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let created = try await machine.run("key", "create", "--json", pins: ["2580"])
        let id = try #require(created.json()["id"]?.string, "\(created)")
        let folder = machine.directory.path
        try #require(symlink("loop", "\(folder)/loop") == 0)
        try #require(symlink("none/file", "\(folder)/nowhere") == 0)
        let socket = try await RunningProgram(
            URL(filePath: "/usr/bin/python3"),
            ["-c", "import socket; socket.socket(socket.AF_UNIX).bind('\(folder)/socket')"]
        ).wait()
        #expect(socket == 0)
        for (path, cause) in [
            (folder, "Is a directory"), ("\(folder)/loop", "Too many levels of symbolic links"),
            ("\(folder)/nowhere", "No such file or directory"),
            ("\(folder)/socket", "No such device or address"), ("/dev/null/x", "Not a directory"),
        ] {
            let outcome = try await machine.run("key", "sign", id, "/dev/null", "--output", path)
            #expect(outcome.status == 2 && outcome.errors.contains(cause), "\(path): \(outcome)")
        }
    }
}
