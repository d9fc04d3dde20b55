internal import Latchkey
internal import Subprocess

/// Makes tokens with `softhsm2-util`. The PINs of a simulator are no secrets: they may be seen in its arguments.
struct SoftwareTokenProvisioner {
    let store: SoftwareTokenStore

    /// - Returns: The new token's serial number.
    func makeToken(
        label: String, userPIN: String, securityOfficerPIN: String
    ) async throws(KeystoreError) -> String {
        _ = try await run([
            "--init-token", "--free", "--label", label, "--pin", userPIN, "--so-pin", securityOfficerPIN,
        ])
        return try serial(ofFirstTokenIn: try await run(["--show-slots"]))
    }

    /// The first slot that is listed holds the token; the last one is always free.
    private func serial(ofFirstTokenIn listing: String) throws(KeystoreError) -> String {
        let name = "Serial number:"
        for line in listing.split(separator: "\n") {
            let words = line.drop { $0 == " " }
            guard words.hasPrefix(name) else { continue }
            let serial = words.dropFirst(name.count).filter { $0 != " " }
            if !serial.isEmpty { return String(serial) }
        }
        throw .softwareTokenFailed("softhsm2-util shows no serial number", text: listing)
    }

    private func run(_ arguments: [String]) async throws(KeystoreError) -> String {
        do {
            var changes: [Environment.Key: String?] = [:]
            for (name, value) in store.environment { changes[Environment.Key(stringLiteral: name)] = value }
            let result = try await Subprocess.run(
                .name("softhsm2-util"), arguments: Arguments(arguments), environment: .inherit.updating(changes),
                input: .none, output: .string(limit: 64 * 1024), error: .string(limit: 64 * 1024))
            guard result.terminationStatus.isSuccess else {
                throw KeystoreError.softwareTokenFailed(
                    "softhsm2-util failed", text: result.standardOutput + result.standardError)
            }
            return result.standardOutput
        } catch let error as KeystoreError {
            throw error
        } catch {
            throw .softwareTokenFailed("softhsm2-util can't be run", text: "\(error)")
        }
    }
}
