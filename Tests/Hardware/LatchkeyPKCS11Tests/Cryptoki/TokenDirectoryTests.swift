import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct TokenDirectoryTests {
    @Test func `tokens are listed with their names, and failures are reported`() async throws {
        let software = try SoftwareToken.current
        let directory = await TokenDirectory.read(
            configured: false, paths: [software.modulePath, "/nowhere/module.so"],
            options: HostileToken.quick)
        let entry = try #require(
            directory.tokens.first { $0.information.serial == software.serial })
        #expect(entry.information.label == "Latchkey")
        #expect(entry.simulator == "softhsm")
        #expect(entry.module.manufacturer == "SoftHSM")
        #expect(entry.modulePath == software.modulePath)
        let token = try await Token.find(entry.uri)
        #expect(token.information.serial == software.serial)
        #expect(directory.failures.map(\.modulePath) == ["/nowhere/module.so"])
        #expect(directory.failures.first?.error.kind == .module(.missing))
    }

    @Test func `a module that hangs does not delay another one`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GetSlotList hang")
        let software = try SoftwareToken.current
        let directory = await TokenDirectory.read(
            configured: false, paths: [hostile.modulePath, software.modulePath],
            options: HostileToken.quick)
        #expect(directory.tokens.contains { $0.information.serial == software.serial })
        #expect(directory.failures.map(\.error.kind) == [.timedOut])
    }

    @Test func `a module without slots has no readers`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GetSlotList length 0")
        let error = await cryptokiError { _ = try await hostile.token() }
        #expect(error?.kind == .noReaders)
    }

    @Test func `p11-kit's configuration is read like p11-kit does`() throws {
        let (system, user) = (try TemporaryDirectory(), try TemporaryDirectory())
        func write(_ text: String, _ directory: TemporaryDirectory, _ name: String) throws {
            try Data(text.utf8).write(to: URL(filePath: directory.path(of: name)))
        }
        try write("# a comment\nmodule: a.so\ncritical: no\n", system, "a.module")
        try write("module: /usr/lib/b.so\n", system, "b.module")
        try write("module: c.so\ndisable-in: firefox, latchkey\n", system, "c.module")
        try write("module: d.so\nenable-in: latchkey\n", system, "d.module")
        try write("module: e.so\nenable-in: firefox\n", system, "e.module")
        try write("module: trust.so\ntrust-policy: yes\n", system, "trust.module")
        try write("module: f.so\n", system, "f.txt")
        try write("module: g.so\nenable-in: latchkey\ndisable-in: latchkey\n", system, "g.module")
        try write(
            " # a comment\n  module: n.so\nx-init-reserved: configdir='sql:/x' flags=\n", system,
            "n.module")
        try write("module: /home/b.so\n", user, "b.module")
        func modules() -> ConfiguredModules {
            ConfiguredModules(
                system: .init(
                    settings: system.path(of: "pkcs11.conf"), modules: [system.path, "/nowhere"]),
                user: .init(settings: user.path(of: "pkcs11.conf"), modules: [user.path]),
                program: "/usr/bin/latchkey")
        }
        try write("remote: |p11-kit remote r.so\n", system, "r.module")
        try write("remote: unix:path=/s\nenable-in: firefox\n", system, "s.module")
        try write("module: a.so\nremote: unix:path=/t\n", system, "a.module")
        #expect(modules().remotes == ["r"])
        #expect(modules().entries.map(\.name) == ["a", "b", "d", "g", "n"])
        #expect(modules().entries.map(\.path) == ["a.so", "/home/b.so", "d.so", "g.so", "n.so"])
        #expect(
            modules().entries.map(\.parameters) == [
                nil, nil, nil, nil, "configdir='sql:/x' flags=",
            ])
        try write("user-config: only\n", user, "pkcs11.conf")
        #expect(modules().entries.map(\.path) == ["/home/b.so"])
        // The system's setting prevents reading the user's.
        try write("user-config: none\n", system, "pkcs11.conf")
        #expect(modules().entries.map(\.path) == ["a.so", "/usr/lib/b.so", "d.so", "g.so", "n.so"])
    }

    @Test func `a configuration that other users can write names no module`() throws {
        let directory = try TemporaryDirectory()
        for (name, mode) in [("own.module", 0o644), ("open.module", 0o666)] {
            let path = directory.path(of: name)
            try Data("module: /usr/lib/a.so\n".utf8).write(to: URL(filePath: path))
            try #require(chmod(path, mode_t(mode)) == 0)
        }
        let modules = ConfiguredModules(
            system: .init(settings: "/nowhere", modules: [directory.path]), user: nil,
            program: "latchkey")
        #expect(modules.entries.map(\.name) == ["own"])
        #expect(modules.untrusted == [directory.path(of: "open.module")])
    }

    @Test func `a module in a directory that other users can write is refused`() async throws {
        let directory = try TemporaryDirectory()
        let (folder, path) = (directory.path(of: "lib"), directory.path(of: "lib/module.so"))
        try #require(mkdir(folder, 0o755) == 0)
        try FileManager.default.copyItem(
            atPath: "\(ConfiguredModules.moduleDirectory)/p11-kit-client.so", toPath: path)
        #expect(throws: Never.self) { try SharedObject.check(path) }
        try #require(chmod(folder, 0o777) == 0)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(path, options: HostileToken.quick)
        }
        #expect(error?.kind == .module(.writableByOthers))
        #expect(error?.reason.contains(folder) == true, "\(String(describing: error))")
    }

    @Test func `p11-kit's proxy as a module is refused with the next step`() async throws {
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(
                "\(ConfiguredModules.moduleDirectory)/../p11-kit-proxy.so",
                options: HostileToken.quick)
        }
        #expect(error?.kind == .module(.proxy))
        let shown = KeystoreError(try #require(error))
        #expect(shown.code == .unavailable)
        #expect(shown.recovery.contains("Remove `module-path=`"), "\(shown.recovery)")
    }
}
