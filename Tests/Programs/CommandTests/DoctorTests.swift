import Foundation
import GRDB
import LatchkeySimulators
import LatchkeyTesting
import RawDatabase
import SystemPackage
import Testing

/// Common problems with TPMs.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct DoctorTests {
    private static let isRoot = getuid() == 0

    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    /// The check with this name, and the exit code of `doctor`.
    private func examine(
        _ name: String, _ machine: Machine, extra: [String: String] = [:]
    ) async throws -> (status: Int32?, check: JSON) {
        let outcome = try await machine.run("doctor", "--json", extra: extra)
        let check = try outcome.json()["checks"]?.array?.first { $0["name"] == .string(name) }
        return (outcome.status, try #require(check, "\(outcome.output)"))
    }

    private func tpmTool(_ name: String, _ arguments: String...) async throws {
        try await program(
            name, arguments, environment: ["TPM2TOOLS_TCTI": SoftwareTPM.current.tcti])
    }

    @Test func `an unknown TCTI is reported`() async throws {
        let (status, check) = try await examine(
            "tpm", machine(), extra: ["LATCHKEY_TCTI": "nonsense"])
        #expect(status == 7)
        #expect(
            check["finding"]?.string?.contains("no TCTI ‘nonsense’ is installed") == true,
            "\(check)")
    }

    @Test func `a missing TPM is reported once, with one next step`() async throws {
        let outcome = try await machine().run(
            "doctor", "--json", extra: ["LATCHKEY_TCTI": "device:/nonexistent/tpm0"])
        #expect(outcome.status == 7)
        let advice = try #require(outcome.json()["checks"]?.array).compactMap {
            $0["advice"]?.string
        }
        #expect(advice.filter { $0.contains("firmware setup") }.count == 1, "\(advice)")
    }

    @Test func `a lockout is reported with its end and the next steps`() async throws {
        let machine = try machine()
        let made = try await machine.run("key", "create", "--json", pins: ["2580"])
        let id = try #require(made.json()["id"]?.string)
        for _ in 0..<3 {
            #expect(
                try await machine.run("key", "sign", id, "/dev/null", pins: ["0000"]).status == 4)
        }
        let (status, check) = try await examine("lockout", machine)
        #expect(status == 0)
        #expect(check["state"] == "warning")
        #expect(check["finding"]?.string?.hasPrefix("The TPM is locked until 2") == true)
        let advice = try #require(check["advice"]?.string)
        let tcti = try SoftwareTPM.current.tcti
        #expect(advice.contains("tpm2_dictionarylockout --clear-lockout -T '\(tcti)'"))
        #expect(try await examine("lockout-password", machine).check["state"] == "ok")
    }

    @Test(.requires(program: "tpm2_dictionarylockout"))
    func `a lockout password that the TPM refuses is named, and asking is no attempt`()
        async throws
    {
        let machine = try machine()
        let password = try #require(try SoftwareTPM.current.lockoutPassword)
        let reset = ["--clear-lockout", "--auth"]
        for _ in 0..<3 {
            #expect(try await examine("lockout-password", machine).check["state"] == "ok")
        }
        try await tpmTool("tpm2_dictionarylockout", reset[0], reset[1], password)
        try await expectRefusal(reset + ["wrong"])
        let (status, check) = try await examine("lockout-password", machine)
        #expect(status == 0 && check["state"] == "warning", "\(check)")
        #expect(
            check["finding"]?.string
                == "The TPM refuses its lockout password after a wrong one, also the right one, for at most 1000 seconds in which the machine is on."
        )
        #expect(try await examine("lockout", machine).check["state"] == "ok")
        try await expectRefusal(reset + [password])
    }

    private func expectRefusal(_ reset: [String]) async throws {
        let outcome = try await HelperProgram.run(
            "tpm2_dictionarylockout", reset,
            environment: ["TPM2TOOLS_TCTI": SoftwareTPM.current.tcti])
        #expect(!outcome.isSuccess, "\(outcome.text)")
    }

    @Test(.requires(program: "tpm2_createprimary"))
    func `a TPM full of other programs' objects is reported with the next step`() async throws {
        let machine = try machine()
        for name in ["a", "b", "c"] {
            try await tpmTool(
                "tpm2_createprimary", "-Q", "-G", "ecc", "-c", machine.directory.path(of: name))
        }
        let (status, check) = try await examine("tpm", machine)
        #expect(status == 10)
        #expect(check["state"] == "problem")
        #expect(
            check["finding"]?.string?.contains("other programs use all memory of the TPM") == true)
        #expect(check["advice"]?.string?.contains("/dev/tpmrm0") == true)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 10)
        try await tpmTool("tpm2_flushcontext", "--transient-object")
        #expect(try await machine.run("doctor").status == 0)
    }

    @Test func `a device without a resource manager is a warning`() async throws {
        let machine = try machine()
        let (raw, managed) = (
            machine.directory.path(of: "tpm7"), machine.directory.path(of: "tpmrm7")
        )
        for path in [raw, managed] {
            try FileManager.default.createSymbolicLink(
                atPath: path, withDestinationPath: "/dev/null")
        }
        let (_, check) = try await examine(
            "tpm-device", machine, extra: ["LATCHKEY_TCTI": "device:\(raw)"])
        #expect(check["state"] == "warning")
        #expect(check["advice"]?.string?.contains("--tcti device:\(managed)") == true)
        let checks = try await machine.run(
            "doctor", "--json", extra: ["LATCHKEY_TCTI": "device:\(managed)"]
        ).json()
        #expect(checks["checks"]?.array?.contains { $0["name"] == "tpm-device" } == false)
    }

    /// p11-kit does not read a user's own configuration for root, so the tool runs as another user.
    @Test(
        .requires(program: "setpriv"),
        .enabled(if: Self.isRoot, "needs root: it runs as another user"))
    func `the modules of p11-kit are those of token list`() async throws {
        let machine = try machine()
        let modules = machine.directory.path(of: "elsewhere/pkcs11/modules")
        try FileManager.default.createDirectory(atPath: modules, withIntermediateDirectories: true)
        for (name, text) in [
            ("own", "module: /nonexistent/own.so"),
            ("off", "module: /nonexistent/off.so\nenable-in: other"),
            ("trust", "module: /nonexistent/trust.so\ntrust-policy: yes"), ("empty", "priority: 1"),
        ] {
            try Data("\(text)\n".utf8).write(to: URL(filePath: "\(modules)/\(name).module"))
        }
        try #require(chmod(machine.directory.path, 0o755) == 0)
        let user = [
            "--reuid", "65534", "--regid", "65534", "--clear-groups", Products.latchkey.string,
        ]
        let place = ["XDG_CONFIG_HOME": machine.directory.path(of: "elsewhere")]
        let doctor = try await machine.run(
            user + ["doctor", "--json"], extra: place, program: "/usr/bin/setpriv")
        let finding = try doctor.json()["checks"]?.array?.first { $0["name"] == "tokens" }?[
            "finding"]?.string
        let names = try #require(finding?.split { ", .".contains($0) }.map(String.init))
        #expect(names.contains("own"))
        #expect(
            !names.contains("off") && !names.contains("trust") && !names.contains("empty"),
            "\(names)")
        #expect(!names.contains("p11-kit-trust"), "it holds certificates only")
    }

    /// Root has permission for every device, so the tool runs as another user.
    @Test(
        .requires(program: "setpriv"),
        .enabled(if: Self.isRoot, "needs root: it runs as another user"),
        arguments: [("tpm0", 0), ("tpm0", 1), ("tpmrm0", 1), ("sda", 1)])
    func `without permission for the device, doctor names the group that has it and the next step`(
        name: String, group: UInt32
    ) async throws {
        let finding = group == 0 ? ": only root has" : ": the group daemon has"
        let machine = try machine()
        let device = machine.directory.path(of: name)
        // /dev/null under another name.
        try #require(mknod(device, S_IFCHR | 0o660, 1 << 8 | 3) == 0)
        try #require(
            chown(device, 0, group) == 0 && chmod(device, 0o660) == 0
                && chmod(machine.directory.path, 0o711) == 0)
        let outcome = try await machine.run(
            [
                "--reuid", "65534", "--regid", "65534", "--clear-groups", Products.latchkey.string,
                "doctor", "--json",
            ], extra: ["LATCHKEY_TCTI": "device:\(device)"], program: "/usr/bin/setpriv")
        let check = try outcome.json()["checks"]?.array?.first { $0["name"] == "tpm" }
        #expect(check?["state"] == "problem")
        // With Latchkey's package installed, its group is named.
        let isInstalled = getgrnam("latchkey") != nil
        let named =
            name == "sda"
            ? "its name is not a TPM's" : isInstalled ? ": the group latchkey has" : finding
        #expect(check?["finding"]?.string?.contains(named) == true, "\(outcome.output)")
        let advice = try #require(check?["advice"]?.string)
        #expect(!advice.replacing("usermod -aG latchkey", with: "").contains("usermod"))
        #expect(advice.contains("latchkey") == (name != "sda"))
    }

    @Test func `a replaced or cleared TPM is a problem with exit code 8`() async throws {
        let machine = try machine()
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        let other = try await SoftwareTPM()
        let (status, check) = try await examine(
            "srk", machine, extra: ["LATCHKEY_TCTI": other.tcti])
        #expect(status == 8)
        #expect(check["state"] == "problem")
        #expect(
            check["finding"]?.string
                == "The store's keys belong to another TPM, or this TPM was cleared.")
        #expect(check["advice"]?.string?.contains("latchkey store reset") == true)
        await other.cutPower()
    }

    @Test(.requires(program: "tpm2_changeauth"))
    func `an owner password without a storage root key is a problem`() async throws {
        let machine = try machine()
        try await tpmTool("tpm2_changeauth", "-c", "owner", "secret")
        let (status, check) = try await examine("srk", machine)
        #expect(status == 7)
        #expect(check["state"] == "problem")
        #expect(check["advice"]?.string?.contains("0x81000001") == true)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 7)
    }

    @Test(.requires(program: "tpm2_changeauth"))
    func `a pending revocation: the command warns, and doctor warns until it is done`() async throws
    {
        let machine = try machine()
        let stored = try await machine.run(
            "vault", "store", "app", "--biometrics", pins: ["2580"], input: "s3cret")
        #expect(stored.status == 0, "\(stored.errors)")
        try await tpmTool("tpm2_changeauth", "-c", "owner", "secret")
        let owned = try await examine("revocation", machine).check["finding"]?.string
        #expect(owned?.contains("cannot be removed until the owner removes the password") == true)
        #expect(owned?.contains("is pending") == false)
        let reset = try await machine.run("vault", "reset", "app", "--yes", "--json")
        #expect(reset.status == 0)
        #expect(
            try reset.json() == [
                "name": "app", "state": "empty", "biometricsEnabled": false,
                "revocationPending": true,
            ])
        #expect(reset.errors.contains("has not revoked"))
        let waiting = try await examine("revocation", machine).check["finding"]?.string
        #expect(waiting?.contains("is pending") == true)
        try await tpmTool("tpm2_changeauth", "-c", "owner", "-p", "secret")
        let (status, check) = try await examine("revocation", machine)
        #expect(status == 0 && check["state"] == "warning")
        #expect(
            check["finding"]?.string?.hasPrefix("Revocation of deleted or replaced keys") == true)
        #expect(try await machine.run("vault", "store", "app", input: "s3cret").status == 0)
        #expect(try await examine("revocation", machine).check["state"] == "ok")
    }

    @Test(.requires(program: "tpm2_evictcontrol"))
    func `another program's key at the storage root key's handle is a warning`() async throws {
        let machine = try machine()
        let context = machine.directory.path(of: "primary")
        try await tpmTool("tpm2_createprimary", "-Q", "-G", "rsa2048", "-c", context)
        try await tpmTool("tpm2_evictcontrol", "-Q", "-C", "owner", "-c", context, "0x81000001")
        try await tpmTool("tpm2_flushcontext", "--transient-object")
        let (status, check) = try await examine("srk", machine)
        #expect(status == 0)
        #expect(check["state"] == "warning")
        #expect(check["finding"]?.string?.hasPrefix("Another program's key") == true)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
    }

    @Test func `a store of another format is a problem`() async throws {
        let machine = try machine()
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        try await DatabaseQueue.raw(at: machine.databasePath).write {
            try $0.execute(sql: "ALTER TABLE record ADD COLUMN future TEXT")
        }
        let (status, check) = try await examine("store", machine)
        #expect(status == 8)
        #expect(check["state"] == "problem")
        #expect(check["advice"]?.string?.contains("latchkey store reset") == true)
    }

    @Test func `a store that others can read and an unwritable directory are problems`()
        async throws
    {
        let machine = try machine()
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        try #require(chmod(machine.directory.path(of: "data/latchkey"), 0o777) == 0)
        let (status, open) = try await examine("store", machine)
        #expect(status == 7)
        #expect(open["state"] == "problem")
        #expect(open["advice"]?.string?.contains("chmod") == true, "\(open)")
        let (_, nowhere) = try await examine(
            "store", machine, extra: ["LATCHKEY_STORE": "/proc/self/store"])
        #expect(nowhere["state"] == "problem")
        #expect(
            nowhere["finding"]?.string?.contains("/proc/self is not writable") == true, "\(nowhere)"
        )
    }
}
