import FoundationEssentials
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
            configured: false, paths: [software.modulePath, "/nowhere/module.so"], options: HostileToken.quick)
        let entry = try #require(directory.tokens.first { $0.information.serial == software.serial })
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
            configured: false, paths: [hostile.modulePath, software.modulePath], options: HostileToken.quick)
        #expect(directory.tokens.contains { $0.information.serial == software.serial })
        #expect(directory.failures.map(\.error.kind) == [.timedOut])
    }

    @Test func `two tokens that match are an error that names both`() async throws {
        let other = try SoftwareToken.current
        // Each software token has a separate directory: a second one is created in it before the module is loaded.
        let second = try await KeystoreBench.program(
            "softhsm2-util",
            ["--init-token", "--free", "--label", "Latchkey", "--pin", "123456", "--so-pin", "12345678"])
        try #require(second.isSuccess, "\(second.text)")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Token.find(TokenURI("pkcs11:token=Latchkey?module-path=\(other.modulePath)"))
        }
        #expect(error?.kind == .tokenAmbiguous)
        #expect(error?.reason.contains(other.serial) == true)
        #expect(error?.reason.split(separator: "serial ").count == 3, "\(String(describing: error))")
    }

    @Test func `a token that does not exist is absent`() async throws {
        let path = try SoftwareToken.current.modulePath
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Token.find(TokenURI("pkcs11:token=nowhere?module-path=\(path)"))
        }
        #expect(error?.kind == .tokenAbsent)
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
        try write("module: /home/b.so\n", user, "b.module")
        let modules = ConfiguredModules(
            directories: [system.path, "/nowhere", user.path], program: "/usr/bin/latchkey")
        #expect(modules.entries.map(\.name) == ["a", "b", "d"])
        #expect(modules.entries.map(\.path) == ["a.so", "/home/b.so", "d.so"])
    }
}
