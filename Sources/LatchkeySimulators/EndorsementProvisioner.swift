internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Subprocess

/// Gives a software TPM its endorsement keys and certificates before it is first switched on.
///
/// `swtpm_setup` does it with a certificate authority in the TPM's own directory, so that neither root nor
/// `/var/lib/swtpm-localca` is needed.
struct EndorsementProvisioner {
    let stateDirectory: String

    func run() async throws(KeystoreError) {
        try writeConfiguration()
        do {
            let result = try await Subprocess.run(
                .name("swtpm_setup"), arguments: Arguments(arguments), input: .none,
                output: .string(limit: 64 * 1024), error: .string(limit: 64 * 1024))
            guard result.terminationStatus.isSuccess else {
                throw KeystoreError.simulatorFailed(
                    "swtpm_setup failed", text: result.standardOutput + result.standardError)
            }
        } catch let error as KeystoreError {
            throw error
        } catch {
            throw .missingProgram("swtpm_setup")
        }
    }

    private var arguments: [String] {
        [
            "--tpm2", "--tpmstate", stateDirectory, "--create-ek-cert", "--ecc",
            "--config", "\(stateDirectory)/setup.conf",
        ] + (geteuid() == 0 ? Self.asRoot : [])
    }

    /// Run by root, swtpm_setup would become the user tss, who can't enter the directory. Run by others, it refuses the
    /// option.
    private static let asRoot = ["--runas", "root"]

    private func writeConfiguration() throws(KeystoreError) {
        let authority = "\(stateDirectory)/ca"
        do {
            try FileManager.default.createDirectory(
                atPath: authority, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            try write(
                """
                create_certs_tool = swtpm_localca
                create_certs_tool_config = \(authority)/localca.conf
                create_certs_tool_options = \(authority)/localca.options
                active_pcr_banks = sha256
                """, to: "\(stateDirectory)/setup.conf")
            try write(
                """
                statedir = \(authority)
                signingkey = \(authority)/signkey.pem
                issuercert = \(authority)/issuercert.pem
                certserial = \(authority)/certserial
                """, to: "\(authority)/localca.conf")
            try write(
                """
                --platform-manufacturer Latchkey
                --platform-version 1
                --platform-model Simulator
                """, to: "\(authority)/localca.options")
        } catch {
            throw .simulatorFailed("its configuration can't be written", text: "\(error)")
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Data("\(text)\n".utf8).write(to: URL(filePath: path))
    }
}
