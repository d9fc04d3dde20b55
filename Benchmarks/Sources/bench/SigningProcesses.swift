import Foundation
import Latchkey
import LatchkeySimulators

/// Compares processes that make one signature each: `latchkey key sign` and other tools, in turn.
/// All except Latchkey and tpm2-pkcs11 send the PIN in clear text.
struct SigningProcesses {
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            try await SoftwareTPMToken.withToken { token in
                let directory = try TemporaryDirectory()
                try Data(SHA256Text.bytes).write(to: directory.url.appending(path: "digest"))
                var processes = [
                    try Self.openssl(
                        "with the storage root key", ["-pkeyopt", "parent:0x81000001"], tpm,
                        directory),
                    try Self.openssl("with a primary key each time", [], tpm, directory),
                    try Self.latchkey(tpm, directory),
                    try Self.tools(tpm, directory),
                    try Self.pkcs11(token, directory),
                    .floor,
                ]
                try MeasuredProcess.measure(&processes, rounds: rounds)
                let (provider, ours) = (processes[0], processes[2])
                return Findings(
                    goals: [
                        .ratio(
                            "one latchkey key sign process", ours.samples, over: provider.samples,
                            named: "openssl pkeyutl", atMost: 0.9),
                        ours.memoryGoal(atMost: 18),
                    ],
                    tables: [
                        MeasuredProcess.table(
                            "one process for one signature, \(rounds) rounds in turn", processes)
                    ])
            }
        }
    }

    private static func latchkey(_ tpm: SoftwareTPM, _ directory: TemporaryDirectory) throws
        -> MeasuredProcess
    {
        let pin = directory.path(of: "pin")
        try Data("\(PromptPresence.pin)\n".utf8).write(to: URL(filePath: pin))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: pin)
        let program = Program.built(
            "latchkey",
            environment: [
                "LATCHKEY_TCTI": tpm.tcti, "XDG_CONFIG_HOME": directory.path(of: "config"),
            ])
        let options = ["--store", directory.path(of: "store"), "--pin-source", "file:\(pin)"]
        struct Created: Decodable {
            let id: String
        }
        let report = try program.run(["key", "create", "--policy", "pin", "--json"] + options)
        let id = try JSONDecoder().decode(Created.self, from: report).id
        return MeasuredProcess(
            "latchkey key sign", program,
            ["key", "sign", id, "--digest", SHA256Text.hexadecimal] + options)
    }

    /// openssl pkeyutl with the tpm2 provider.
    private static func openssl(
        _ manner: String, _ parent: [String], _ tpm: SoftwareTPM, _ directory: TemporaryDirectory
    ) throws -> MeasuredProcess {
        // The storage root key may exist already.
        let program = Program(
            name: "openssl", environment: ["TPM2OPENSSL_TCTI": tpm.tcti, "TSS2_LOG": "all+NONE"])
        if !parent.isEmpty { try makeStorageRootKey(tpm, directory) }
        let key = directory.path(of: parent.isEmpty ? "default.pem" : "persistent.pem")
        try program.run(
            [
                "genpkey", "-provider", "tpm2", "-algorithm", "EC", "-pkeyopt", "group:P-256",
                "-pkeyopt",
                "user-auth:\(PromptPresence.pin)", "-out", key,
            ] + parent)
        return MeasuredProcess(
            "openssl pkeyutl, tpm2 provider, \(manner)", program,
            [
                "pkeyutl", "-provider", "tpm2", "-provider", "default", "-propquery",
                "?provider=tpm2", "-sign",
                "-inkey", key, "-passin", "pass:\(PromptPresence.pin)", "-in",
                directory.path(of: "digest"), "-out",
                "/dev/null",
            ])
    }

    private static func tools(_ tpm: SoftwareTPM, _ directory: TemporaryDirectory) throws
        -> MeasuredProcess
    {
        let (publicPart, privatePart) = (
            directory.path(of: "key.pub"), directory.path(of: "key.priv")
        )
        let context = directory.path(of: "key.ctx")
        try tool(
            "tpm2_create", tpm,
            [
                "-C", "0x81000001", "-G", "ecc256:ecdsa-sha256", "-p", PromptPresence.pin, "-u",
                publicPart, "-r",
                privatePart,
            ])
        try tool(
            "tpm2_load", tpm,
            ["-C", "0x81000001", "-u", publicPart, "-r", privatePart, "-c", context])
        try tool("tpm2_flushcontext", tpm, ["-t"])
        return MeasuredProcess(
            "tpm2_sign, the key's context saved before",
            Program(name: "tpm2_sign", environment: environment(tpm)),
            [
                "-c", context, "-p", PromptPresence.pin, "-g", "sha256", "-d",
                directory.path(of: "digest"), "-o",
                directory.path(of: "signature"),
            ],
            // tpm2_sign leaves the key in one of the three object slots.
            cleaning: { try tool("tpm2_flushcontext", tpm, ["-t"]) })
    }

    private static func pkcs11(_ token: SoftwareTPMToken, _ directory: TemporaryDirectory) throws
        -> MeasuredProcess
    {
        let program = Program(name: "pkcs11-tool", environment: token.environment)
        let options = [
            "--module", token.modulePath, "--token-label", token.label, "--login", "--pin",
            token.userPIN,
        ]
        try program.run(options + ["--keypairgen", "--key-type", "EC:prime256v1", "--id", "01"])
        return MeasuredProcess(
            "pkcs11-tool, tpm2-pkcs11 through tpm2-abrmd", program,
            options + [
                "--sign", "--mechanism", "ECDSA", "--id", "01", "--input-file",
                directory.path(of: "digest"),
                "--output-file", directory.path(of: "signature"),
            ])
    }

    /// The TCG's template, so that Latchkey uses the existing key.
    private static func makeStorageRootKey(_ tpm: SoftwareTPM, _ directory: TemporaryDirectory)
        throws
    {
        let program = Program.built(
            "latchkey",
            environment: [
                "LATCHKEY_TCTI": tpm.tcti, "XDG_CONFIG_HOME": directory.path(of: "config"),
            ])
        try program.run([
            "key", "create", "--policy", "none", "--store", directory.path(of: "other"),
        ])
    }

    private static func tool(_ name: String, _ tpm: SoftwareTPM, _ arguments: [String]) throws {
        try Program(name: name, environment: environment(tpm)).run(arguments)
    }

    private static func environment(_ tpm: SoftwareTPM) -> [String: String] {
        ["TPM2TOOLS_TCTI": tpm.tcti, "TSS2_LOG": "all+NONE"]
    }
}

/// The digest to sign.
private enum SHA256Text {
    static let bytes = [UInt8](repeating: 0xA5, count: 32)
    static let hexadecimal = String(repeating: "a5", count: 32)
}
