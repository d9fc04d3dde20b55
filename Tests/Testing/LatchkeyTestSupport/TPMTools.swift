package import Foundation
package import LatchkeySimulators
internal import Testing

/// The programs tpm2-tools on a software TPM, as an independent client.
package struct TPMTools: Sendable {
    /// A program that failed.
    package struct Failure: Error {
        package let text: String
    }

    private let directory: TemporaryDirectory
    private let tcti: String

    /// - Parameter directory: For the programs' files.
    package init(_ tpm: SoftwareTPM, in directory: TemporaryDirectory) {
        self.directory = directory
        tcti = tpm.tcti
    }

    /// Runs a program, which must succeed, and flushes its objects: the TPM has three slots.
    package func callAsFunction(_ name: String, _ arguments: String...) async throws {
        _ = try await SystemProgram(name).require(["-T", tcti] + arguments)
        try await flush()
    }

    private func flush() async throws {
        _ = try await SystemProgram("tpm2_flushcontext").require(["-T", tcti, "-t"])
    }

    package func path(_ name: String) -> String { directory.path(of: name) }

    package func bytes(_ name: String) throws -> Data {
        try Data(contentsOf: URL(filePath: path(name)))
    }

    /// Creates a P-256 key for ECDSA with SHA-256 below a storage key, in the files `NAME.ctx`,
    /// `NAME.hash` and `NAME.ticket`.
    ///
    /// - Parameters:
    ///   - attributes: Attributes in addition to fixedtpm, fixedparent, sensitivedataorigin,
    ///     userwithauth and sign.
    ///   - pin: The key's authValue; nil for the empty one.
    /// - Returns: `TPMT_PUBLIC`.
    package func createKey(_ name: String, _ attributes: String, pin: String? = nil) async throws
        -> Data
    {
        if !FileManager.default.fileExists(atPath: path("primary.ctx")) {
            try await self(
                "tpm2_createprimary", "-C", "o", "-G", "ecc256:null:aes128cfb", "-c",
                path("primary.ctx"))
        }
        let create =
            [
                "-T", tcti, "-C", path("primary.ctx"), "-G", "ecc256:ecdsa-sha256:null", "-a",
                "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign" + attributes, "-u",
                path(name + ".pub"),
                "-r", path(name + ".priv"), "--creation-hash", path(name + ".hash"), "-t",
                path(name + ".ticket"),
            ] + (pin.map { ["-p", $0] } ?? [])
        _ = try await SystemProgram("tpm2_create").require(create)
        try await flush()
        try await self(
            "tpm2_load", "-C", path("primary.ctx"), "-u", path(name + ".pub"), "-r",
            path(name + ".priv"), "-c",
            path(name + ".ctx"))
        // The file is a TPM2B_PUBLIC.
        return try bytes(name + ".pub").dropFirst(2)
    }

    /// Opens a server's challenge with `TPM2_ActivateCredential`.
    ///
    /// - Parameters:
    ///   - credentialBlob: `TPMS_ID_OBJECT`.
    ///   - encryptedSecret: The content of a `TPM2B_ENCRYPTED_SECRET`.
    ///   - endorsementKey: A handle, or the path of a context.
    ///   - needsPolicy: Whether the endorsement key has an L template, whose policy is
    ///     `PolicySecret(endorsement)`.
    /// - Throws: ``Failure`` if the TPM refuses.
    package func activate(
        credentialBlob: Data, encryptedSecret: Data, key: String, endorsementKey: String,
        needsPolicy: Bool
    ) async throws -> Data {
        // The file format of tpm2_makecredential: magic, version, TPM2B_ID_OBJECT,
        // TPM2B_ENCRYPTED_SECRET.
        var file = Data([0xba, 0xdc, 0xc0, 0xde, 0, 0, 0, 1])
        for part in [credentialBlob, encryptedSecret] {
            file += Data([UInt8(part.count >> 8), UInt8(part.count & 0xff)]) + part
        }
        try file.write(to: URL(filePath: path("credential")))
        var arguments = [
            "-T", tcti, "-c", path(key + ".ctx"), "-C", endorsementKey, "-i", path("credential"),
            "-o", path("secret"),
        ]
        if needsPolicy {
            try await self("tpm2_startauthsession", "--policy-session", "-S", path("session"))
            try await self("tpm2_policysecret", "-S", path("session"), "-c", "e")
            arguments += ["-P", "session:" + path("session")]
        }
        let outcome = try await SystemProgram("tpm2_activatecredential").result(of: arguments)
        if needsPolicy { try await self("tpm2_flushcontext", path("session")) }
        // A failed run leaves its objects in the TPM.
        try await flush()
        guard outcome.isSuccess else { throw Failure(text: outcome.text) }
        return try bytes("secret")
    }

    /// Attests the creation of a key by an attestation key.
    ///
    /// - Returns: `TPMS_ATTEST` and `TPMT_SIGNATURE`.
    package func certifyCreation(
        of key: String, by attestationKey: String, qualifyingData: Data
    ) async throws -> (statement: Data, signature: Data) {
        try await self(
            "tpm2_certifycreation", "-C", path(attestationKey + ".ctx"), "-c", path(key + ".ctx"),
            "-d",
            path(key + ".hash"), "-t", path(key + ".ticket"), "-g", "sha256", "-q",
            qualifyingData.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(),
            "--attestation",
            path("statement"), "-o", path("signature"))
        return (try bytes("statement"), try bytes("signature"))
    }

    /// Signs a SHA-256 digest.
    ///
    /// - Returns: An ECDSA signature in DER.
    package func sign(_ digest: Data, with key: String, pin: String) async throws -> Data {
        try digest.write(to: URL(filePath: path("digest")))
        try await self(
            "tpm2_sign", "-c", path(key + ".ctx"), "-p", pin, "-g", "sha256", "-s", "ecdsa", "-f",
            "plain", "-d", "-o",
            path("plain"), path("digest"))
        return try bytes("plain")
    }
}
