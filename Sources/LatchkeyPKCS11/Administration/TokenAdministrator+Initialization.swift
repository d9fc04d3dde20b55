internal import FoundationEssentials
package import Latchkey

extension TokenAdministrator {
    /// Erases the token and sets its label and the PINs of its security officer and its user.
    ///
    /// Prompts for the security officer's PIN (the current one if the token is initialized, else a new one), then for the
    /// user's new PIN. If the URI matches several tokens and one of them is not initialized, chooses that one.
    ///
    /// - Parameters:
    ///   - label: 1 to 32 bytes of UTF-8.
    ///   - isErasing: Whether an initialized token may be erased with all its keys.
    /// - Returns: The token's new information; its serial number may have changed.
    /// - Throws: `KeystoreError`; `conflict` for an initialized token that may not be erased, `wrongProof`, `unsupported`.
    package func initialize(label: String, erasing isErasing: Bool = false) async throws(KeystoreError)
        -> TokenInformation
    {
        let operation = "initialize the token"
        guard (1...32).contains(label.utf8.count), !label.unicodeScalars.contains(where: { $0.value < 32 }) else {
            throw .invalidInput(operation, "a label has 1 to 32 bytes and no control character")
        }
        let entry = try await blankEntry(operation)
        guard ModuleProfile(for: entry.module).family != .ykcs11 else {
            throw .unsupported(
                operation, "a YubiKey is always initialized; it can only be reset",
                recovery: "Run `ykman piv reset`, which erases all its PIV keys, and change its PINs.")
        }
        let isUsed = entry.information.flags.contains(.initialized)
        guard !isUsed || isErasing else {
            throw .conflict(
                operation, "it is initialized already, as ‘\(entry.information.label)’",
                recovery: "Use --erase to delete everything on it.")
        }
        let officer = try await proof(
            isUsed ? .securityOfficer : .new, of: entry,
            to: isUsed ? "erase the token" : "set the security officer's PIN")
        let user = try await newProof(for: entry, to: "set the token's PIN")
        try await initialize(operation, entry, label: label, securityOfficer: officer)
        let made = try await freshEntry(operation, label: label, before: entry)
        try await administer(operation, on: made, as: .securityOfficer, officer) { (session) throws(CryptokiError) in
            try session.initializePIN(user)
        }
        return try await freshEntry(operation, label: label, before: made).information
    }

    /// The one token that matches the URI, or among several the uninitialized one.
    private func blankEntry(_ operation: String) async throws(KeystoreError) -> TokenDirectory.Entry {
        let fitting = try await entries(operation)
        let blank = fitting.filter { !$0.information.flags.contains(.initialized) }
        guard blank.count == 1, let only = blank.first, fitting.count > 1 else { return try await entry(operation) }
        return only
    }

    /// The token after its initialization, which may change its serial number and slot.
    private func freshEntry(
        _ operation: String, label: String, before: TokenDirectory.Entry
    ) async throws(KeystoreError) -> TokenDirectory.Entry {
        let directory = await TokenDirectory.read(configured: false, paths: [before.modulePath], options: options.token)
        let named = directory.tokens.filter {
            $0.information.label == label && $0.information.flags.contains(.initialized)
                && $0.information.model == before.information.model
        }
        let same = named.filter { $0.information.serial == before.information.serial }
        let fitting = same.isEmpty ? named.filter { !$0.information.flags.contains(.userPINInitialized) } : same
        guard let entry = fitting.first else {
            throw KeystoreError(
                CryptokiError(.tokenAbsent, reason: "the initialized token was not found"), during: operation)
        }
        guard fitting.count == 1 else { throw ambiguous(operation, fitting) }
        return entry
    }
}
