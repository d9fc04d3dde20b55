import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Objects of other programs at the handle of the storage root key, and the answers of TPMs that
/// cannot work.
extension OddTPMTests {
    /// A key of another program at 0x81000001.
    enum Occupant: String, CaseIterable {
        case nothing
        /// The TCG's RSA storage root key.
        case rsa
        /// An ECC storage root key whose authValue the TPM counts.
        case counted
        case p384
        case signing
        case hmac
        /// A storage key made from Latchkey's template, but not by the owner's seed.
        case child, endorsement

        fileprivate var algorithm: String {
            switch self {
            case .rsa: "rsa2048:aes128cfb"
            case .p384: "ecc384:aes256cfb"
            case .signing: "ecc256:ecdsa-sha256"
            case .hmac: "hmac"
            case .nothing, .counted, .child, .endorsement: "ecc256:aes128cfb"
            }
        }

        fileprivate var attributes: String {
            let own =
                switch self {
                case .signing, .hmac: "noda|sign"
                case .counted: "restricted|decrypt"
                default: "noda|restricted|decrypt"
                }
            return "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|\(own)"
        }
    }

    /// Puts the key of another program at the handle, and returns its public area.
    private func place(_ occupant: Occupant, _ machine: Machine) async throws -> String {
        guard occupant != .nothing else { return "" }
        let (key, parent) = (machine.directory.path(of: "k"), machine.directory.path(of: "p"))
        let form = ["-g", "sha256", "-G", occupant.algorithm, "-a", occupant.attributes]
        if occupant == .child {
            let (area, secret) = (
                machine.directory.path(of: "area"), machine.directory.path(of: "secret")
            )
            try await tool(["tpm2_createprimary", "-Q", "-C", "owner", "-c", parent])
            try await tool(
                ["tpm2_create", "-Q", "-C", parent] + form + ["-u", area, "-r", secret])
            try await tool("tpm2_flushcontext", "--transient-object")
            try await tool(
                "tpm2_load", "-Q", "-C", parent, "-u", area, "-r", secret, "-c", key)
        } else {
            let hierarchy = occupant == .endorsement ? "endorsement" : "owner"
            try await tool(["tpm2_createprimary", "-Q", "-C", hierarchy] + form + ["-c", key])
        }
        try await tool("tpm2_flushcontext", "--transient-object")
        try await tool("tpm2_evictcontrol", "-Q", "-C", "owner", "-c", key, "0x81000001")
        try await tool("tpm2_flushcontext", "--transient-object")
        return try await occupantName()
    }

    private func succeed(
        _ machine: Machine, _ arguments: String..., input: String = ""
    ) async throws {
        let outcome = try await machine.run(arguments, pins: ["258025"], input: input)
        try #require(outcome.status == 0, "\(arguments): \(outcome.errors)")
    }

    private func occupantName() async throws -> String {
        try await tool("tpm2_readpublic", "-c", "0x81000001")
    }

    @Test(.requires(program: "tpm2_createprimary"), arguments: Occupant.allCases)
    func `another program's key at the handle from the start changes nothing`(
        occupant: Occupant
    ) async throws {
        let machine = try Machine(tcti: Self.tcti)
        let name = try await place(occupant, machine)
        let found = try await check("srk", machine)
        #expect(found.status == 0 && found.state != "problem", "\(found)")
        let (works, errors) = try await works(machine)
        #expect(works, "\(errors)")
        if occupant != .nothing { #expect(try await occupantName() == name) }
    }

    /// The key is derived from the owner's seed again. Not with a storage key whose authValue the TPM
    /// counts: each use of it in place of the right one is a wrong attempt.
    @Test(
        .requires(program: "tpm2_createprimary"),
        arguments: Occupant.allCases.filter { $0 != .counted })
    func `keys and vaults work after another program took the handle`(
        occupant: Occupant
    ) async throws {
        let machine = try Machine(tcti: Self.tcti)
        for policy in ["pin", "none"] {
            try await succeed(machine, "key", "create", "--policy", policy, "--label", policy)
        }
        try await succeed(machine, "vault", "store", "v", input: "secret")
        try await tool("tpm2_evictcontrol", "-Q", "-C", "owner", "-c", "0x81000001")
        let name = try await place(occupant, machine)
        for policy in ["pin", "none"] {
            try await succeed(machine, "key", "sign", policy, "/dev/null")
        }
        try await succeed(machine, "vault", "show", "v")
        let found = try await check("srk", machine)
        #expect(found.status == 0 && found.state != "problem", "\(found)")
        if occupant != .nothing { #expect(try await occupantName() == name) }
        let (works, errors) = try await works(machine)
        #expect(works, "\(errors)")
        if occupant != .nothing { #expect(try await occupantName() == name) }
        #expect(try await check("lockout", machine).finding.contains("locks after 3 more"))
    }

    /// Nobody can tell whether this TPM has the key, and no PIN is called wrong.
    @Test(.requires(program: "tpm2_createprimary"), arguments: [Occupant.nothing, .rsa, .signing])
    func `an owner password that hides the storage root key is named, and the advice helps`(
        occupant: Occupant
    ) async throws {
        let machine = try Machine(tcti: Self.tcti)
        try await succeed(machine, "key", "create", "--label", "k")
        try await tool("tpm2_evictcontrol", "-Q", "-C", "owner", "-c", "0x81000001")
        _ = try await place(occupant, machine)
        try await tool("tpm2_changeauth", "-c", "owner", "owner password")
        let sign = ["key", "sign", "k", "/dev/null"]
        let refused = try await machine.run(sign, pins: ["258025"])
        #expect(refused.status == 7, "\(refused.errors)")
        #expect(refused.errors.contains("owner password is set"), "\(refused.errors)")
        let made = try await machine.run(["key", "create", "--policy", "none"])
        #expect(made.status == 7 && made.errors.contains("owner password is set"), "\(made.errors)")
        let found = try await check("srk", machine)
        #expect(found.status == 7 && found.state == "problem", "\(found)")
        try await follow(found.advice, machine, password: "owner password")
        try await tool("tpm2_flushcontext", "--transient-object")
        try await succeed(machine, "key", "sign", "k", "/dev/null")
        #expect(try await check("srk", machine).status == 0)
    }

    /// Sessions that another program left loaded, flushed with the command of the advice.
    @Test(.requires(program: "tpm2_flushcontext"), .requires(program: "python3"))
    func `sessions of other programs are flushed as advised`() async throws {
        // TPM2_StartAuthSession of an unsalted HMAC session, without the tools, which would save it.
        let script = """
            import socket, sys
            for _ in range(3):
                link = socket.socket(socket.AF_UNIX)
                link.connect(sys.argv[1])
                link.send(bytes.fromhex('80010000002b00000176' + '40000007' * 2 + '0010' + '00' * 16
                    + '0000' + '00' + '0010' + '000b'))
                assert link.recv(4096)[6:10] == bytes(4)
            """
        let path = try #require(Self.tcti.split(separator: "=").last.map(String.init))
        try await program("python3", ["-c", script, path])
        let machine = try Machine(tcti: Self.tcti)
        let found = try await check("tpm", machine)
        #expect(found.status == 10 && found.finding.contains("all memory of the TPM"), "\(found)")
        let advised = try #require(found.advice.firstMatch(of: /\(tpm2_flushcontext ([a-z-]+)\)/))
        try await tool("tpm2_flushcontext", String(advised.output.1))
        #expect(try await check("tpm", machine).status == 0)
        let (works, errors) = try await works(machine)
        #expect(works, "\(errors)")
    }

    /// A response code, and the words of the advice.
    struct Answer: Sendable, CustomTestStringConvertible {
        let code: UInt32
        let status: Int32
        let finding: String
        let advice: String
        var testDescription: String { String(code, radix: 16) }
    }

    static let answers: [Answer] = {
        func answers(_ codes: [UInt32], _ status: Int32, _ words: String, _ advice: String)
            -> [Answer]
        {
            codes.map { Answer(code: $0, status: status, finding: words, advice: advice) }
        }
        // TPM_RC_DISABLED, then ASYMMETRIC, HASH, VALUE, KEY_SIZE, MODE, TYPE, KDF, SCHEME,
        // SYMMETRIC and CURVE of parameter 2.
        let lacking: [UInt32] = [
            0x120, 0x2c1, 0x2c3, 0x2c4, 0x2c7, 0x2c9, 0x2ca, 0x2cc, 0x2d2, 0x2d6, 0x2e6,
        ]
        // INITIALIZE, FAILURE and REBOOT; UPGRADE; OBJECT_MEMORY and SESSION_MEMORY; RETRY, NV_RATE
        // and NV_UNAVAILABLE without an end.
        return answers([0x100, 0x101, 0x130], 7, "is not ready", "Restart the machine")
            + answers([0x12d], 7, "is not ready", "firmware")
            + answers(lacking, 1, "lacks a required feature", "another TPM")
            + answers([0x902, 0x903], 10, "all memory of the TPM", "Try again")
            + answers([0x922, 0x920, 0x923], 10, "is busy", "Try again")
    }()

    @Test(arguments: answers)
    func `a TPM that refuses to make a storage root key is named with its cause`(_ answer: Answer)
        async throws
    {
        let bus = try FaultyTPM(try SoftwareTPM.current)
        bus.arm(.code(answer.code, times: .max), atCommand: Missing.createPrimary.rawValue)
        let machine = try Machine(tcti: bus.tcti)
        let made = try await machine.run("key", "create", "--policy", "none")
        #expect(made.status == answer.status, "\(made.errors)")
        let found = try await check("tpm", machine)
        #expect(found.status != 0 && found.state == "problem", "\(found)")
        for text in [made.errors, "\(found.finding) \(found.advice)"] {
            #expect(text.contains(answer.finding) && text.contains(answer.advice), "\(text)")
        }
    }
}
