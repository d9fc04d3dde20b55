import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Files that are modules, and files that are not: each cause has its own error.
struct ModuleTests {
    private func failure(_ path: String) async -> CryptokiError? {
        await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(path, options: HostileToken.quick)
        }
    }

    @Test(arguments: ["/nowhere/module.so", "no-such-module.so"])
    func `a file that is missing`(_ path: String) async {
        #expect(await failure(path)?.kind == .module(.missing))
    }

    @Test(arguments: [[UInt8](), Array("#!/bin/sh\n".utf8), [0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]])
    func `a file that is not a shared object`(_ bytes: [UInt8]) async throws {
        let directory = try TemporaryDirectory()
        try Data(bytes).write(to: URL(filePath: directory.path(of: "module.so")))
        #expect(await failure(directory.path(of: "module.so"))?.kind == .module(.notAModule))
    }

    @Test func `a directory is not a module`() async throws {
        let directory = try TemporaryDirectory()
        #expect(await failure(directory.path)?.kind == .module(.notAModule))
    }

    @Test func `a library that is not a module`() async {
        let library = "\(ConfiguredModules.moduleDirectory)/../libc.so.6"
        #expect(await failure(library)?.kind == .module(.notAModule))
    }

    @Test func `a library for another processor`() async throws {
        let directory = try TemporaryDirectory()
        var head = [UInt8](repeating: 0, count: 64)
        head.replaceSubrange(0..<7, with: [0x7f, 0x45, 0x4c, 0x46, 1, 2, 1])
        // A big-endian shared object for PowerPC, whose type is 3 in both byte orders.
        head[16] = 3
        head[19] = 20
        try Data(head).write(to: URL(filePath: directory.path(of: "module.so")))
        #expect(await failure(directory.path(of: "module.so"))?.kind == .module(.wrongArchitecture))
    }

    @Test func `a program can't be loaded`() async {
        #expect(await failure("/usr/bin/env")?.kind == .module(.unloadable))
    }

    @Test(.requires(program: "softhsm2-util"), .softwareToken)
    func `a module that does not start reports the cause, and works later`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_Initialize return \(ReturnValue.deviceMemory.rawValue)")
        #expect(
            await failure(hostile.modulePath)?.kind == .module(.initializeFailed(.deviceMemory)))
        try hostile.tell()
        let module = try await Module.load(hostile.modulePath, options: HostileToken.quick)
        #expect(module.information.manufacturer == "SoftHSM")
    }

    @Test(.requires(program: "softhsm2-util"), .softwareToken)
    func `a module that can't lock uses one thread for all tokens`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_Initialize cantlock")
        let token = try await hostile.token()
        #expect(!token.module.isThreadSafe)
        let random = try await token.withSession { session throws(CryptokiError) in
            try session.tokenInformation().label
        }
        #expect(random == "Latchkey")
    }

    @Test(.requires(program: "softhsm2-util"), .softwareToken)
    func `a symbolic link to a module is the same module`() async throws {
        let hostile = try HostileToken()
        let link = hostile.directory.path(of: "link.so")
        try FileManager.default.createSymbolicLink(
            atPath: link, withDestinationPath: hostile.modulePath)
        let first = try await Module.load(link, options: HostileToken.quick)
        let second = try await Module.load(hostile.modulePath, options: HostileToken.quick)
        #expect(first === second)
        #expect(try hostile.count(of: "C_Initialize") == 1)
    }

    @Test(arguments: [
        ("SoftHSM", "Implementation of PKCS11", (2, 6), ModuleProfile.Family.softhsm, false),
        ("Yubico (www.yubico.com)", "PKCS#11 PIV Library (SP-800-73)", (2, 20), .ykcs11, false),
        ("OpenSC Project", "OpenSC smartcard framework", (0, 23), .opensc, true),
        ("OpenSC Project", "OpenSC smartcard framework", (0, 24), .opensc, false),
        ("tpm2-software.github.io", "TPM2.0 Cryptoki", (1, 9), .tpm2, false),
        ("Somebody", "Something", (1, 0), .generic, false),
    ])
    func `the description of a module selects its profile`(
        _ manufacturer: String, _ description: String, _ version: (UInt8, UInt8),
        _ family: ModuleProfile.Family,
        _ isolates: Bool
    ) {
        let profile = ModuleProfile(
            for: ModuleInformation(
                manufacturer: manufacturer, description: description,
                version: .init(major: version.0, minor: version.1),
                cryptokiVersion: .init(major: 2, minor: 40)))
        #expect(profile.family == family)
        #expect(profile.isolatesByDefault == isolates)
    }
}
