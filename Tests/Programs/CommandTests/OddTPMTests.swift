import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `doctor` says that keys can be created exactly if they can, on TPMs that differ from the
/// specification or were set up by other programs; and its advice works.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(30)))
struct OddTPMTests {
    /// A command that the TPM or its resource manager does not implement.
    enum Missing: UInt32, CaseIterable {
        case evictControl = 0x120
        case nvUndefineSpace = 0x122
        case nvDefineSpace = 0x12a
        case createPrimary = 0x131
        case nvWrite = 0x137
        case nvWriteLock = 0x138
        case nvChangeAuth = 0x13b
        case nvRead = 0x14e
        case policySecret = 0x151
        case create = 0x153
        case importKey = 0x156
        case load = 0x157
        case sign = 0x15d
        case unseal = 0x15e
        case contextSave = 0x162
        case loadExternal = 0x167
        case nvReadPublic = 0x169
        case policyAuthValue = 0x16b
        case policyCommandCode = 0x16c
        case policyOR = 0x171
        case readPublic = 0x173
        case startAuthSession = 0x176
        case getCapability = 0x17a
        case getRandom = 0x17b
        case testParms = 0x18a
    }

    /// The response code of the kernel's resource manager for an unknown command.
    private static let unknownCommand: UInt32 = 0x000b_0143

    static var tcti: String { get throws { try SoftwareTPM.current.tcti } }

    @discardableResult
    func tool(_ words: String...) async throws -> String { try await tool(words) }

    @discardableResult
    func tool(_ words: [String]) async throws -> String {
        try await program(
            words[0], Array(words.dropFirst()), environment: ["TPM2TOOLS_TCTI": Self.tcti])
    }

    func check(_ name: String, _ machine: Machine) async throws -> (
        status: Int32?, state: String?, finding: String, advice: String
    ) {
        let outcome = try await machine.run("doctor", "--json")
        let check = try #require(
            outcome.json()["checks"]?.array?.first { $0["name"] == .string(name) },
            "\(outcome.output)")
        return (
            outcome.status, check["state"]?.string, check["finding"]?.string ?? "",
            check["advice"]?.string ?? ""
        )
    }

    /// Runs the command in an advice, from `sudo` on, as root. Its passwords come from a file, not
    /// from a terminal, and its file is in the machine's directory.
    func follow(
        _ advice: String, to end: String = "", _ machine: Machine, password: String = ""
    ) async throws {
        let start = try #require(advice.range(of: "sudo tpm2_"), "\(advice)")
        let secret = machine.directory.path(of: "password")
        try Data(password.utf8).write(to: URL(filePath: secret))
        var command = String(advice[start.lowerBound...])
        if !end.isEmpty, let stop = command.range(of: end) {
            command = String(command[..<stop.lowerBound])
        }
        command = command.replacing("sudo ", with: "").replacing("file:-", with: "file:\(secret)")
            .replacing("/run/", with: machine.directory.path(of: ""))
        try await program(
            "sh", ["-c", command], environment: ["TPM2TOOLS_TCTI": Self.tcti])
    }

    /// Whether keys can be created and used, and vaults.
    func works(_ machine: Machine) async throws -> (works: Bool, errors: String) {
        let made = try await machine.run("key", "create", "--json", pins: ["258025"])
        guard made.status == 0 else { return (false, made.errors) }
        let id = try #require(made.json()["id"]?.string)
        let signed = try await machine.run("key", "sign", id, "/dev/null", pins: ["258025"])
        guard signed.status == 0 else { return (false, signed.errors) }
        let stored = try await machine.run(
            "vault", "store", "odd", pins: ["258025"], input: "secret")
        guard stored.status == 0 else { return (false, stored.errors) }
        let opened = try await machine.run("vault", "show", "odd", pins: ["258025"])
        return (opened.status == 0 && opened.output.contains("secret"), opened.errors)
    }

    @Test(arguments: Missing.allCases)
    func `without a command, doctor says ok exactly if keys and vaults work`(
        missing: Missing
    ) async throws {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        bus.arm(.code(Self.unknownCommand, times: .max), atCommand: missing.rawValue)
        let doctor = try await Machine(tcti: bus.tcti).run("doctor", "--json")
        let (works, errors) = try await works(Machine(tcti: bus.tcti))
        #expect((doctor.status == 0) == works, "\(doctor.output)\n\(errors)")
        let checks = try doctor.json()["checks"]?.array ?? []
        let problems = checks.filter { $0["state"] == "problem" }
        #expect(problems.isEmpty == works)
        #expect(
            problems.allSatisfy { $0["finding"]?.string?.contains("lacks a required") == true },
            "\(problems)")
        print("without \(missing): \(works ? "works" : "does not work")")
    }

    @Test func `a disabled hierarchy is named`() async throws {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        bus.arm(.code(0x185, times: .max), atCommand: Missing.createPrimary.rawValue)
        let machine = try Machine(tcti: bus.tcti)
        let found = try await check("tpm", machine)
        #expect(found.status == 7 && found.state == "problem")
        #expect(found.finding.contains("a hierarchy of the TPM is disabled"), "\(found)")
        #expect(found.advice.contains("firmware setup"), "\(found)")
        #expect(try await machine.run("key", "create", "--policy", "none").status == 7)
    }

    @Test func `a TPM that reports one value at a time is read completely`() async throws {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        bus.arm(.oneValue, atCommand: Missing.getCapability.rawValue)
        let machine = try Machine(tcti: bus.tcti)
        #expect(try await works(machine).works)
        let direct = try Machine(tcti: Self.tcti)
        for name in ["tpm", "lockout"] {
            let (odd, usual) = (try await check(name, machine), try await check(name, direct))
            #expect(odd.finding == usual.finding && odd.status == 0, "\(odd)")
        }
    }

    @Test(.requires(program: "tpm2_createprimary"))
    func `a password of the storage root key is named, and the advice removes it`() async throws {
        let machine = try Machine(tcti: Self.tcti)
        let context = machine.directory.path(of: "primary")
        try await tool(
            "tpm2_createprimary", "-Q", "-C", "owner", "-g", "sha256", "-G", "ecc256:aes128cfb",
            "-a",
            "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|decrypt", "-p",
            "a password", "-c", context)
        try await tool("tpm2_evictcontrol", "-Q", "-C", "owner", "-c", context, "0x81000001")
        try await tool("tpm2_flushcontext", "--transient-object")
        let refused = try await machine.run("key", "create", "--policy", "none")
        #expect(refused.status == 7)
        #expect(refused.errors.contains("the TPM's storage root key has a password"))
        #expect(!refused.errors.contains("another TPM"))
        let found = try await check("tpm", machine)
        #expect(found.status == 7 && found.state == "problem")
        #expect(found.finding.contains("the TPM's storage root key has a password"))
        try await follow(found.advice, machine)
        #expect(try await check("tpm", machine).status == 0)
        #expect(try await works(machine).works)
    }

    @Test(.requires(program: "tpm2_createprimary"), arguments: ["doctor", "key create"])
    func `with an owner password, the printed commands create the storage root key`(
        source: String
    ) async throws {
        let machine = try Machine(tcti: Self.tcti)
        try await tool("tpm2_changeauth", "-c", "owner", "owner password")
        let refused = try await machine.run("key", "create", "--policy", "none")
        let found = try await check("srk", machine)
        #expect(refused.status == 7 && found.status == 7 && found.state == "problem")
        let advice = source == "doctor" ? found.advice : refused.errors
        try await follow(advice, to: ". For", machine, password: "owner password")
        try await tool("tpm2_flushcontext", "--transient-object")
        let now = try await check("srk", machine)
        #expect(now.state == "ok", "\(now)")
        #expect(try await works(machine).works)
    }

    @Test(
        .requires(program: "tpm2_dictionarylockout"),
        arguments: [
            ("4294967295", "600", "4294967439 wrong PINs a day"),
            ("32", "1", "86432 wrong PINs a day"), ("32", "0", "does not count wrong PINs"),
        ])
    func `a limit that stops no guessing is a warning, and the advice sets one`(
        tries: String, recovery: String, finding: String
    ) async throws {
        let machine = try Machine(tcti: Self.tcti)
        let password = try #require(SoftwareTPM.current.lockoutPassword)
        try await tool(
            "tpm2_dictionarylockout", "--setup-parameters", "--max-tries=\(tries)",
            "--recovery-time=\(recovery)", "--lockout-recovery-time=0", "--auth", password)
        let found = try await check("lockout", machine)
        #expect(found.state == "warning" && found.finding.contains(finding), "\(found)")
        if recovery == "0" {
            let status = try await machine.run("pin", "status")
            #expect(status.output.contains("Attempts left:   unlimited"), "\(status.output)")
            #expect(!status.output.contains("restored"))
        }
        try await follow(found.advice, machine, password: password)
        #expect(
            try await check("lockout", machine).finding == "The TPM locks after 31 more wrong PINs."
        )
    }

    @Test(.asRoot, .requires(program: "unshare"), .requires(program: "setpriv"))
    func `a software TPM of another user is a matter of permission`() async throws {
        let file = try await AdministratorsFile(nil)
        let machine = try Machine(tcti: Self.tcti)
        let outcome = try await file.run(
            "key", "create", "--policy", "none", on: machine, as: AdministratorsFile.nobody)
        #expect(outcome.status == 7, "\(outcome)")
        #expect(
            outcome.errors.contains("no permission to use the software TPM's socket"), "\(outcome)")
        #expect(!outcome.errors.contains("Start the software TPM"), "\(outcome)")
    }
}
